import { PERMISSIONS } from '../../src/authentication/permissions.js';
import type { KeycloakOptions } from '../../src/identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
import { API_CLIENT, newRealm, protocolMappers, REALM_MANAGEMENT, SERVICE_CLIENT, SERVICE_RIGHTS } from '../../src/identity-management/adapters/out/keycloak/realm.js';
import type { Keycloak } from '../servers/keycloak.mjs';

const SERVICE = { realm: 'loads', audience: 'load-data-api', clientId: 'load-data-service', clientSecret: 'service-secret' };
/** The client of the tests. It may also request tokens of users with the users' passwords. */
const OPERATOR = { clientId: 'operator', secret: 'operator-secret' };

/** The realm of the tests, with everything that the service needs, and a client that requests tokens for the tests. */
export function testRealm() {
  const account = ({ clientId }: { clientId: string }) => ({ username: `service-account-${clientId}`, enabled: true, serviceAccountClientId: clientId });
  return {
    ...newRealm(SERVICE.realm),
    clients: [
      { clientId: SERVICE.audience, ...API_CLIENT },
      { clientId: SERVICE.clientId, secret: SERVICE.clientSecret, ...SERVICE_CLIENT },
      { ...OPERATOR, serviceAccountsEnabled: true, directAccessGrantsEnabled: true, protocolMappers: protocolMappers(SERVICE.audience) },
    ],
    roles: { client: { [SERVICE.audience]: PERMISSIONS.map((name) => ({ name })) } },
    users: [
      { ...account(SERVICE), clientRoles: { [REALM_MANAGEMENT]: SERVICE_RIGHTS } },
      { ...account(OPERATOR), attributes: { customer_id: ['acme', 'north'] }, clientRoles: { [SERVICE.audience]: PERMISSIONS } },
    ],
  };
}

export const keycloakOptions = (url: string): KeycloakOptions => ({ ...SERVICE, url });

export const keycloakVariables = (url: string): Record<string, string> => ({
  IDENTITY_PROVIDER: 'keycloak',
  KEYCLOAK_URL: url,
  KEYCLOAK_REALM: SERVICE.realm,
  KEYCLOAK_CLIENT_ID: SERVICE.clientId,
  KEYCLOAK_CLIENT_SECRET: SERVICE.clientSecret,
});

export async function keycloakToken({ endpoint }: Keycloak, user?: { username: string; password: string }): Promise<string> {
  const grant = user ? { grant_type: 'password', ...user } : { grant_type: 'client_credentials' };
  const body = new URLSearchParams({ ...grant, client_id: OPERATOR.clientId, client_secret: OPERATOR.secret });
  const response = await fetch(`${endpoint}/realms/${SERVICE.realm}/protocol/openid-connect/token`, { method: 'POST', body });
  const { access_token: token } = (await response.json()) as { access_token?: string };
  if (token === undefined) throw new Error(`No token: ${response.status}`);
  return token;
}

/** The permissions of a user, as Keycloak itself reports them. */
export async function keycloakPermissionsOf(server: Keycloak, userId: string): Promise<string[]> {
  const [api] = (await server.administer('GET', `/clients?clientId=${SERVICE.audience}`)) as { id: string }[];
  const path = `/users/${userId.replace('keycloak|', '')}/role-mappings/clients/${api?.id ?? ''}/composite`;
  return ((await server.administer('GET', path)) as { name: string }[]).map(({ name }) => name);
}
