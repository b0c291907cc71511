import { ServiceError, type ServiceErrorOptions } from '../../common/service-error.js';

/**
 * The identity provider's or the domain's refusal of a request: a value is invalid, is already in use, or refers to
 * something that doesn't exist. Each operation has one error text for all refusals, chosen by its HTTP adapter.
 */
export abstract class IdentityRefusal extends ServiceError {
  constructor(message: string, options?: ServiceErrorOptions) {
    super('bad-request', message, options);
  }
}

export class InvalidIdentityValue extends IdentityRefusal {}
export class UserNotFound extends IdentityRefusal {}
export class RoleNotFound extends IdentityRefusal {}
/** The e-mail of the user to be created is in use, in any letter case. */
export class UserAlreadyExists extends IdentityRefusal {}
/** The name of the role to be created is in use. */
export class RoleAlreadyExists extends IdentityRefusal {}

/**
 * The identity provider is unreachable, throttles us, fails, or is silent, or the caller has given up. A later retry
 * may help.
 */
export class ProviderUnavailable extends ServiceError {
  constructor(message: string, options: ServiceErrorOptions = {}) {
    super('provider-unavailable', message, { retryAfterSeconds: 10, ...options });
  }
}

/** The identity provider refuses our credentials, or breaks its contract. A retry doesn't help. */
export class ProviderError extends ServiceError {
  constructor(message: string, options?: ServiceErrorOptions) {
    super('provider-error', message, options);
  }
}

/** The identity provider lacks something that the service needs, or its settings disagree with those of the service. */
export class ProviderMisconfigured extends ProviderError {
  /** @param problems one line for each thing to fix, without secrets. */
  constructor(readonly problems: readonly string[]) {
    super(problems.join(' '));
  }
}
