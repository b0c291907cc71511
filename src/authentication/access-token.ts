import type { IncomingMessage } from 'node:http';

export interface AccessToken {
  readonly subject: string;
  readonly permissions: ReadonlySet<string>;
  /** The customers whose data the token covers, from the claim `customer_id`; `*` means all customers. */
  readonly customerIds: ReadonlySet<string>;
}

/** Identifies the caller by the bearer token of a request. */
export abstract class AccessTokenVerifier {
  /**
   * @throws ServiceError `unauthorized` when the token is missing or invalid; `provider-unavailable` when it can't be
   * checked, because the issuer's keys are unavailable or too many requests wait for them.
   */
  abstract verify(request: IncomingMessage): Promise<AccessToken>;

  /**
   * Checks whether tokens can be verified. Called often. A verifier may omit this method.
   *
   * @throws ServiceError `provider-unavailable` while no key of the issuer may be used, and the keys can't be fetched.
   */
  checkHealth?(): Promise<void>;
}
