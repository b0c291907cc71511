import { type ArgumentsHost, Catch } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../../../../common/service-error.js';
import { ServiceExceptionFilter } from '../../../../http/service-exception.filter.js';
import { IdentityRefusal, InvalidIdentityValue, RoleAlreadyExists, RoleNotFound, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';

/**
 * Answers every `IdentityRefusal` and error `invalid-request-body` with the operation's one error text for refusals
 * (service interface, part 7).
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

/** The reason of a refusal for the log, without the request's values. */
function reasonOf(refusal: Error): string {
  if (refusal instanceof RoleAlreadyExists) return 'role_name is taken';
  if (refusal instanceof UserAlreadyExists) return 'email is taken';
  if (refusal instanceof RoleNotFound) return 'role_id is unknown';
  if (refusal instanceof UserNotFound) return 'user_id is unknown';
  return refusal instanceof InvalidIdentityValue ? `invalid: ${refusal.message}` : refusal.message;
}
