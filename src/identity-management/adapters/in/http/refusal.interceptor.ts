import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor, type Type, mixin } from '@nestjs/common';
import { catchError, type Observable, throwError } from 'rxjs';
import { type ErrorKind, ServiceError } from '../../../../common/service-error.js';
import { IdentityRefusal } from '../../../domain/errors.js';

/** Gives every refused request the one error text of its operation (service interface, part 7). */
export function RefusalInterceptor(kind: ErrorKind): Type<NestInterceptor> {
  @Injectable()
  class OperationRefusalInterceptor implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(catchError((error: unknown) => throwError(() => translate(error, kind))));
    }
  }
  return mixin(OperationRefusalInterceptor);
}

function translate(error: unknown, kind: ErrorKind): unknown {
  const refused = error instanceof IdentityRefusal || (error instanceof ServiceError && error.kind === 'invalid-request-body');
  return refused ? new ServiceError(kind, error.message, { cause: error }) : error;
}
