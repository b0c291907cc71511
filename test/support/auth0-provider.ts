import { afterAll, beforeAll, describe } from 'vitest';
import { Auth0IdentityProvider } from '../../src/identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js';
import { identityProviderContract } from '../../src/testing/identity-provider.contract.js';
import { type Auth0Settings, type Auth0StandIn, startAuth0StandIn } from '../../src/testing/index.js';

export const openAuth0Provider = ({ domain, service }: Auth0StandIn): Auth0IdentityProvider =>
  new Auth0IdentityProvider({ url: domain, ...service, connection: 'Username-Password-Authentication', audience: 'load-data-api' });

/**
 * Declares the contract tests for the Auth0 adapter. They share one tenant, with the users and roles of earlier tests.
 */
export function auth0ProviderContract(what: string, settings: Partial<Auth0Settings>): void {
  describe(`on ${what}`, () => {
    let tenant: Auth0StandIn;
    beforeAll(async () => {
      tenant = await startAuth0StandIn({ settings });
    });
    afterAll(() => tenant.stop());

    identityProviderContract('Auth0IdentityProvider', () => {
      // The tenant's search finds the users of earlier tests from now on, as if others had created them long ago.
      tenant.indexUsers();
      let provider = openAuth0Provider(tenant);
      return Promise.resolve({
        provider,
        unknownUserId: 'auth0|0123456789abcdef01234567',
        unknownRoleId: 'rol_0123456789abcdef',
        moreThanOnePage: 101,
        reopen: async () => {
          await provider.onApplicationShutdown();
          tenant.indexUsers();
          return (provider = openAuth0Provider(tenant));
        },
        permissionsOf: (userId) => Promise.resolve(tenant.permissionsOf(userId)),
        tearDown: () => provider.onApplicationShutdown(),
      });
    });
  });
}
