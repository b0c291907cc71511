import { auth0ProviderContract } from '../../../../../test/support/auth0-provider.js';

auth0ProviderContract('a tenant whose search lags, with short pages and few calls', {
  searchDelayMs: Infinity,
  largestPage: 50,
  unknownRole: 'ignored',
  rateLimit: { burst: 50, perSecond: 200 },
});
