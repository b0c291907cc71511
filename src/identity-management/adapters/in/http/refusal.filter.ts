import { type ArgumentsHost, Catch } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../../../../common/service-error.js';
import { ServiceExceptionFilter } from '../../../../http/service-exception.filter.js';
import { IdentityRefusal } from '../../../domain/errors.js';

/**
 * Answers an invalid body and every `IdentityRefusal` with the one error text of the operation (service interface, part
 * 7).
 */
@Catch()
export class RefusalFilter extends ServiceExceptionFilter {
  constructor(private readonly kind: ErrorKind) {
    super();
  }

  override catch(exception: unknown, host: ArgumentsHost): void {
    super.catch(isRefusal(exception) ? new ServiceError(this.kind, exception.message, { cause: exception }) : exception, host);
  }
}

const isRefusal = (exception: unknown): exception is Error =>
  exception instanceof IdentityRefusal || (exception instanceof ServiceError && exception.kind === 'invalid-request-body');
