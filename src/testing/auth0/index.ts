export type { TokenRequest } from './access-tokens.js';
export {
  type Auth0Exchange,
  Auth0StandIn,
  type Auth0StandInOptions,
  type ClientCredentials,
  type LoadUsersOptions,
  type SeenRequest,
  SERVICE_SCOPES,
  startAuth0StandIn,
} from './auth0.stand-in.js';
export { type Auth0Fault, type FaultOptions, HTML, TOO_MANY_REQUESTS } from './faults.js';
export type { RateLimit } from './rate-limit.js';
export type { Auth0Mail, Auth0Settings } from './tenant.js';
export type { SearchGranularity } from './user-query.js';
