import type { IncomingMessage } from 'node:http';

/** What a verified access token says. */
export interface AccessToken {
  readonly subject: string;
  readonly permissions: ReadonlySet<string>;
  /** The customers that its `customer_id` claim names (`*`: all); empty without the claim. */
  readonly customerIds: ReadonlySet<string>;
}

/** Tells who is asking, from the bearer token of a request. The same for every identity provider. */
export abstract class AccessTokenVerifier {
  /**
   * @throws ServiceError `unauthorized` when the request has no token, or one that must not be believed, whatever the
   * reason; `provider-unavailable` when the issuer's keys can't be had, so that nobody can tell.
   */
  abstract verify(request: IncomingMessage): Promise<AccessToken>;
}
