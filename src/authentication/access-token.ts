import type { IncomingMessage } from 'node:http';

/** The content of a verified access token. */
export interface AccessToken {
  readonly subject: string;
  readonly permissions: ReadonlySet<string>;
  /** The customers that the claim `customer_id` names (`*` means all customers). Empty if it names none. */
  readonly customerIds: ReadonlySet<string>;
}

/** Identifies the caller by the bearer token of a request. Works the same with every identity provider. */
export abstract class AccessTokenVerifier {
  /**
   * @throws ServiceError `unauthorized` when the token is missing or invalid for any reason; `provider-unavailable`
   * when the token can't be checked, because the issuer's keys can't be fetched or too many requests wait for these
   * keys.
   */
  abstract verify(request: IncomingMessage): Promise<AccessToken>;

  /**
   * Checks whether tokens can be verified. Called often, by `/health/ready`, together with the health check of the
   * identity provider. Optional; a verifier without it counts as healthy.
   *
   * @throws ServiceError `provider-unavailable` while no key of the issuer may be used, because none is known or all
   * are too old, and the keys can't be fetched.
   */
  checkHealth?(): Promise<void>;
}
