/** What the use cases allow the identity provider; its own DI token. */
export class IdentityManagementLimits {
  /**
   * @param providerTimeoutMs milliseconds that a call, or a page of a list, may take: unless told so many that a caller has
   * the answer within ten seconds, also when the check of a token whose key is known waits a moment for newer keys.
   */
  constructor(readonly providerTimeoutMs = 9_400) {}
}
