// A stand-in for an Auth0 tenant, from what was built. `node test/servers/auth0.mjs` runs one until it is interrupted.
import { once } from 'node:events';
import { startAuth0StandIn } from '../../dist/testing/index.js';

const signalled = Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
const count = Number(process.argv[2] ?? 0);
const standIn = await startAuth0StandIn();
standIn.loadUsers(count);
const { clientId, clientSecret } = standIn.service;
const variables = {
  IDENTITY_PROVIDER: 'auth0',
  AUTH0_DOMAIN: standIn.domain,
  AUTH0_CLIENT_ID: clientId,
  AUTH0_CLIENT_SECRET: clientSecret,
  OIDC_AUDIENCE: 'load-data-api',
};
for (const [name, value] of Object.entries(variables)) console.log(`export ${name}=${value}`);
console.log('Ready');
await signalled;
await standIn.stop();
