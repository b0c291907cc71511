/** What the use cases allow the identity provider; its own DI token. */
export class IdentityManagementLimits {
  /** @param providerTimeoutMs milliseconds that a call, or a page of a list, may take. */
  constructor(readonly providerTimeoutMs = 10_000) {}
}
