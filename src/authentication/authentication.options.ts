import type { KeySetSource } from './key-set-source.js';
import type { KeySetTimes } from './key-set.js';

/** Which access tokens are accepted. */
export interface AuthenticationOptions extends KeySetTimes {
  /** The exact `iss`. A function if it is known only once the service listens; called for every token. */
  readonly issuer: string | (() => string);
  /**
   * The value that `aud` must equal or contain. Also the member of `resource_access` that permissions are read from.
   */
  readonly audience: string;
  readonly keySet: KeySetSource;
  /** The allowed clock difference in seconds, 0 to 10 (default: 5). */
  readonly clockToleranceSeconds?: number;
}
