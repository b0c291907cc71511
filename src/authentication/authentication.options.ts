import type { KeySetSource } from './key-set-source.js';
import type { KeySetTimes } from './key-set.js';

/** Which access tokens are accepted. */
export interface AuthenticationOptions extends KeySetTimes {
  /**
   * The exact `iss` of accepted tokens. A function if the issuer is known only once the service listens. The function
   * is called when the first `iss` must be checked, and its result is kept. If it throws, the token is refused, and the
   * function is called again at the next check.
   */
  readonly issuer: string | (() => string);
  /**
   * The value that a token's `aud` must equal or contain. Permissions are also read from the member with this name in
   * the token's `resource_access` claim (Keycloak).
   */
  readonly audience: string;
  readonly keySet: KeySetSource;
  /** The allowed difference between the clocks of the issuer and of this service, in seconds, 0 to 10 (default: 5). */
  readonly clockToleranceSeconds?: number;
}
