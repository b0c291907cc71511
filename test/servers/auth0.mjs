// Runs a stand-in for an Auth0 tenant, from the build. `node test/servers/auth0.mjs 1000` runs one with 1,000 users
// until it is interrupted. It prints the variables to set for the service and its set-up, and an access token for
// callers of the service.
import { once } from 'node:events';
import { PERMISSIONS } from '../../dist/authentication/permissions.js';
import { startAuth0StandIn } from '../../dist/testing/index.js';

const signalled = Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
const count = Number(process.argv[2] ?? 0);
const standIn = await startAuth0StandIn();
standIn.loadUsers(count);
const { clientId, clientSecret } = standIn.service;
const { administrator } = standIn;
const variables = {
  IDENTITY_PROVIDER: 'auth0',
  AUTH0_DOMAIN: standIn.domain,
  AUTH0_CLIENT_ID: clientId,
  AUTH0_CLIENT_SECRET: clientSecret,
  OIDC_AUDIENCE: 'load-data-api',
  AUTH0_SETUP_CLIENT_ID: administrator.clientId,
  AUTH0_SETUP_CLIENT_SECRET: administrator.clientSecret,
  TOKEN: await standIn.issueToken({ permissions: PERMISSIONS, claims: { customer_id: '*' } }),
};
for (const [name, value] of Object.entries(variables)) console.log(`export ${name}=${value}`);
console.log('Ready');
await signalled;
await standIn.stop();
