import { afterAll, beforeAll, describe } from 'vitest';
import { KeycloakIdentityProvider } from '../../src/identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
import { identityProviderContract } from '../../src/testing/identity-provider.contract.js';
import { isKeycloakAvailable, type Keycloak, startKeycloak } from '../servers/keycloak.mjs';
import { keycloakOptions, keycloakPermissionsOf, testRealm } from '../support/keycloak-realm.js';

const START_MS = 120_000;
const UNKNOWN = '4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10';

describe.runIf(isKeycloakAvailable())('Keycloak', () => {
  let server: Keycloak;

  beforeAll(async () => {
    server = await startKeycloak({ realm: testRealm() });
  }, START_MS);
  afterAll(() => server.stop());

  const open = () => new KeycloakIdentityProvider({ ...keycloakOptions(server.endpoint), usersPerPage: 20 });

  identityProviderContract('KeycloakIdentityProvider', () =>
    Promise.resolve({
      provider: open(),
      unknownUserId: `keycloak|${UNKNOWN}`,
      unknownRoleId: UNKNOWN,
      moreThanOnePage: 21,
      // One more of the latter, and Keycloak has no room.
      longestName: `a${'😀'.repeat(254)}`,
      reopen: () => Promise.resolve(open()),
      permissionsOf: (userId) => keycloakPermissionsOf(server, userId),
      tearDown: () => undefined,
    }),
  );
});
