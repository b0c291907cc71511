import type { KeySetSource } from './key-set-source.js';
import type { KeySetTimes } from './key-set.js';

/** Whose access tokens are believed. */
export interface AuthenticationOptions extends KeySetTimes {
  /** The exact `iss`. A function where it is known only once the service listens; asked for every token. */
  readonly issuer: string | (() => string);
  /** What `aud` must be or contain; also the member of `resource_access` that permissions are read from. */
  readonly audience: string;
  readonly keySet: KeySetSource;
  /** How far clocks may be apart, 0 to 10 seconds; 5 unless told. */
  readonly clockToleranceSeconds?: number;
}
