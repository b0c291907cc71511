import type { IncomingMessage } from 'node:http';

/** The content of a verified access token. */
export interface AccessToken {
  readonly subject: string;
  readonly permissions: ReadonlySet<string>;
  /** The customers in its `customer_id` claim (`*`: all); empty without the claim. */
  readonly customerIds: ReadonlySet<string>;
}

/** Identifies the caller by the bearer token of a request. The same for every identity provider. */
export abstract class AccessTokenVerifier {
  /**
   * @throws ServiceError `unauthorized` when the token is missing or invalid for any reason; `provider-unavailable`
   * when the issuer's keys can't be fetched, so that the token can't be checked.
   */
  abstract verify(request: IncomingMessage): Promise<AccessToken>;
}
