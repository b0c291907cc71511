import type { KeySetSource } from './key-set-source.js';
import type { KeySetTimes } from './key-set.js';

export interface AuthenticationOptions extends KeySetTimes {
  /**
   * The exact `iss` of accepted tokens; a function if it is known only once the service listens. The function's first
   * result is kept.
   */
  readonly issuer: string | (() => string);
  /**
   * The value that a token's `aud` must equal or contain. Also the client in `resource_access` (Keycloak) whose roles
   * count as permissions.
   */
  readonly audience: string;
  readonly keySet: KeySetSource;
  /** The allowed difference between the issuer's clock and this service's, in seconds, 0 to 10 (default: 5). */
  readonly clockToleranceSeconds?: number;
}
