import type { KeySetSource } from './key-set-source.js';
import type { KeySetTimes } from './key-set.js';

/** Which access tokens are accepted. */
export interface AuthenticationOptions extends KeySetTimes {
  /**
   * The exact `iss` of accepted tokens. A function if the issuer is known only once the service listens. The function
   * is called for the first token. If it throws, that token is refused, and the next one calls it again.
   */
  readonly issuer: string | (() => string);
  /**
   * The value that a token's `aud` must equal or contain. Also the name of the member of `resource_access` that
   * permissions are read from.
   */
  readonly audience: string;
  readonly keySet: KeySetSource;
  /** The allowed difference between the clocks of the issuer and of this service, in seconds, 0 to 10 (default: 5). */
  readonly clockToleranceSeconds?: number;
}
