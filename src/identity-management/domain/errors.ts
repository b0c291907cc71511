import { ServiceError, type ServiceErrorOptions } from '../../common/service-error.js';

/**
 * The request can't be met as it stands: a value breaks its rule, is taken, or names what isn't there.
 * Each operation has one text for all of these; the operation's adapter says which.
 */
export abstract class IdentityRefusal extends ServiceError {
  constructor(message: string, options?: ServiceErrorOptions) {
    super('bad-request', message, options);
  }
}

export class InvalidIdentityValue extends IdentityRefusal {}
export class UserNotFound extends IdentityRefusal {}
export class RoleNotFound extends IdentityRefusal {}
/** The e-mail is in use, whatever its letter case. */
export class UserAlreadyExists extends IdentityRefusal {}
/** The role name is in use. */
export class RoleAlreadyExists extends IdentityRefusal {}

/** The provider can't be reached, throttles us, or is silent. Repeating later makes sense. */
export class ProviderUnavailable extends ServiceError {
  constructor(message: string, options: ServiceErrorOptions = {}) {
    super('provider-unavailable', message, { retryAfterSeconds: 10, ...options });
  }
}

/** The provider refuses our credentials, or breaks its contract. Repeating doesn't help. */
export class ProviderError extends ServiceError {
  constructor(message: string, options?: ServiceErrorOptions) {
    super('provider-error', message, options);
  }
}

/** The provider lacks what the service needs there, or the service was told something else than the provider. */
export class ProviderMisconfigured extends ProviderError {
  /** @param problems a line for each, which holds no secret. */
  constructor(readonly problems: readonly string[]) {
    super(problems.join(' '));
  }
}
