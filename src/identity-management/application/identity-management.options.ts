/** The limits for calls to the identity provider. A class, so that it can be a DI token. */
export class IdentityManagementLimits {
  /**
   * @param providerTimeoutMs how long a call, or a page of a list, may take, in milliseconds. With the default a caller
   * gets the answer within ten seconds, even if the token check waits a moment for newer keys.
   */
  constructor(readonly providerTimeoutMs = 9_400) {}
}
