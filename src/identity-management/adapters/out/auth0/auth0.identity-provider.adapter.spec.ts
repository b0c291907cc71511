import { afterAll, beforeAll, describe } from 'vitest';
import { identityProviderContract } from '../../../../testing/identity-provider.contract.js';
import { type Auth0Settings, type Auth0StandIn, startAuth0StandIn } from '../../../../testing/index.js';
import { Auth0IdentityProvider } from './auth0.identity-provider.adapter.js';

const CONNECTION = 'Username-Password-Authentication';

const open = ({ domain, service }: Auth0StandIn) =>
  new Auth0IdentityProvider({ url: domain, ...service, connection: CONNECTION, audience: 'load-data-api' });

/** The suite on one tenant, which keeps what the tests before have made. */
function contractOf(what: string, settings: Partial<Auth0Settings>): void {
  describe(`on ${what}`, () => {
    let tenant: Auth0StandIn;
    beforeAll(async () => {
      tenant = await startAuth0StandIn({ settings });
    });
    afterAll(() => tenant.stop());

    identityProviderContract('Auth0IdentityProvider', () => {
      // What other processes have made is known to the search, later.
      tenant.indexUsers();
      let provider = open(tenant);
      return Promise.resolve({
        provider,
        unknownUserId: 'auth0|0123456789abcdef01234567',
        unknownRoleId: 'rol_0123456789abcdef',
        moreThanOnePage: 101,
        reopen: async () => {
          await provider.onApplicationShutdown();
          tenant.indexUsers();
          return (provider = open(tenant));
        },
        permissionsOf: (userId) => Promise.resolve(tenant.permissionsOf(userId)),
        tearDown: () => provider.onApplicationShutdown(),
      });
    });
  });
}

contractOf('a tenant that refuses unknown roles', {});
contractOf('a tenant whose search lags, with short pages and few calls', {
  searchDelayMs: Infinity,
  largestPage: 50,
  unknownRole: 'ignored',
  rateLimit: { burst: 50, perSecond: 200 },
});
