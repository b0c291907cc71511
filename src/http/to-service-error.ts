import { HttpException } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../common/service-error.js';

const KIND_OF_STATUS: Readonly<Record<number, ErrorKind>> = {
  401: 'unauthorized',
  403: 'unauthorized',
  404: 'not-found',
  408: 'request-timeout',
  413: 'payload-too-large',
  415: 'unsupported-media-type',
  429: 'too-many-requests',
};

const statusOf = (exception: unknown): number | undefined => {
  if (exception instanceof HttpException) return exception.getStatus();
  // Express and its middleware put the status of a client error on the error object.
  const status = exception instanceof Error && 'status' in exception ? exception.status : undefined;
  return typeof status === 'number' ? status : undefined;
};

/**
 * Converts any thrown value to a `ServiceError`; `internal` if nothing more specific is known. Foreign messages are
 * kept only in the cause, because the message of a `ServiceError` may be logged.
 */
export function toServiceError(exception: unknown): ServiceError {
  if (exception instanceof ServiceError) return exception;
  const status = statusOf(exception) ?? 500;
  const kind = KIND_OF_STATUS[status] ?? (status >= 400 && status < 500 ? 'bad-request' : 'internal');
  return new ServiceError(kind, kind, { cause: exception });
}
