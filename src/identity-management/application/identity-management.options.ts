/** The limits for calls to the identity provider. A class, so that it can be a DI token. */
export class IdentityManagementLimits {
  /**
   * @param providerTimeoutMs the time limit of one call, or of one page of a list, in milliseconds. With the default a
   * caller gets the answer within ten seconds, even if the token check waits a moment for newer keys.
   */
  constructor(readonly providerTimeoutMs = 9_400) {}
}
