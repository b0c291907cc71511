import { ServiceError, type ServiceErrorOptions } from '../../common/service-error.js';

/**
 * A refusal of a request: a value is invalid, in use, or refers to something that doesn't exist. Each HTTP operation
 * has one error text for all of its refusals.
 */
export abstract class IdentityRefusal extends ServiceError {
  constructor(message: string, options?: ServiceErrorOptions) {
    super('bad-request', message, options);
  }
}

export class InvalidIdentityValue extends IdentityRefusal {}
export class UserNotFound extends IdentityRefusal {}
export class RoleNotFound extends IdentityRefusal {}
/** The e-mail belongs to another user, possibly in other letter case. */
export class UserAlreadyExists extends IdentityRefusal {}
export class RoleAlreadyExists extends IdentityRefusal {}

/**
 * The identity provider is unreachable, throttling, failing or silent, or the caller has given up. A retry may help, by
 * default after 10 seconds (`retryAfterSeconds`).
 */
export class ProviderUnavailable extends ServiceError {
  constructor(message: string, options: ServiceErrorOptions = {}) {
    super('provider-unavailable', message, { retryAfterSeconds: 10, ...options });
  }
}

/** The identity provider refuses the service's credentials or gives an unexpected answer. A retry hardly helps. */
export class ProviderError extends ServiceError {
  constructor(message: string, options?: ServiceErrorOptions) {
    super('provider-error', message, options);
  }
}

/** Something that the service needs is missing from the identity provider, or a setting doesn't match the service's. */
export class ProviderMisconfigured extends ProviderError {
  /** @param problems one line for each thing to fix, without secrets. */
  constructor(readonly problems: readonly string[]) {
    super(problems.join(' '));
  }
}
