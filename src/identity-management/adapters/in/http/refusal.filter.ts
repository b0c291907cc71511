import { type ArgumentsHost, Catch } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../../../../common/service-error.js';
import { ServiceExceptionFilter } from '../../../../http/service-exception.filter.js';
import { IdentityRefusal, InvalidIdentityValue, RoleAlreadyExists, RoleNotFound, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';

/**
 * Answers errors of the kind `invalid-request-body`, and every `IdentityRefusal`, with the one error text that the
 * operation has for refusals (service interface, part 7). Answers other errors as `ServiceExceptionFilter` does.
 */
@Catch()
export class RefusalFilter extends ServiceExceptionFilter {
  constructor(private readonly kind: ErrorKind) {
    super();
  }

  override catch(exception: unknown, host: ArgumentsHost): void {
    super.catch(isRefusal(exception) ? new ServiceError(this.kind, reasonOf(exception), { cause: exception }) : exception, host);
  }
}

const isRefusal = (exception: unknown): exception is Error =>
  exception instanceof IdentityRefusal || (exception instanceof ServiceError && exception.kind === 'invalid-request-body');

/** The reason for a refusal, for the log: what is wrong with the request, without a quotation of its values. */
function reasonOf(refusal: Error): string {
  if (refusal instanceof RoleAlreadyExists) return 'role_name is taken';
  if (refusal instanceof UserAlreadyExists) return 'email is taken';
  if (refusal instanceof RoleNotFound) return 'role_id is unknown';
  if (refusal instanceof UserNotFound) return 'user_id is unknown';
  return refusal instanceof InvalidIdentityValue ? `invalid: ${refusal.message}` : refusal.message;
}
