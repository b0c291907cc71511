import { PERMISSIONS } from '../../src/authentication/permissions.js';
import type { Auth0Options } from '../../src/identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js';
import type { Auth0Settings, Auth0StandIn, Auth0StandInOptions } from '../../src/testing/index.js';
import { type CheckedAuth0, startCheckedAuth0 } from './checked-auth0.js';

const AUDIENCE = 'load-data-api';

/** Starts a stand-in for an Auth0 tenant that has the service's API and its permissions, but no users and roles. */
export const startTenant = (settings: Partial<Auth0Settings> = {}, onExchange?: Auth0StandInOptions['onExchange']): Promise<CheckedAuth0> =>
  startCheckedAuth0({ audience: AUDIENCE, apiScopes: PERMISSIONS, settings, ...(onExchange && { onExchange }) });

export const auth0Options = ({ domain, service }: Auth0StandIn): Auth0Options => ({
  ...service,
  url: domain,
  audience: AUDIENCE,
  connection: 'Username-Password-Authentication',
});

export const auth0Variables = ({ domain, service }: Auth0StandIn): Record<string, string> => ({
  IDENTITY_PROVIDER: 'auth0',
  AUTH0_DOMAIN: domain,
  AUTH0_CLIENT_ID: service.clientId,
  AUTH0_CLIENT_SECRET: service.clientSecret,
  OIDC_AUDIENCE: AUDIENCE,
});

export const operatorToken = (tenant: Auth0StandIn): Promise<string> =>
  tenant.issueToken({ permissions: PERMISSIONS, claims: { customer_id: 'acme' } });
