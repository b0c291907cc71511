import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Logger } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../common/service-error.js';
import { BodyAlreadyReadError, logBodyAlreadyRead } from './body-already-read.js';
import { ERROR_TABLE } from './error-table.js';
import { exchangeOf, sendErrorJson } from './exchange.js';

const logger = new Logger('Http');

/** Answers a request with an error of the service (see `answerError`) if handling the request throws. */
@Catch()
export class ServiceExceptionFilter implements ExceptionFilter {
  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    answerError(http.getRequest<IncomingMessage>(), http.getResponse<ServerResponse>(), toServiceError(exception));
  }
}

/** The body of the answer to an error: a JSON object with the single member `error` (service interface, part 7). */
export const errorBody = (kind: ServiceError['kind']): string => JSON.stringify({ error: ERROR_TABLE[kind].text });

const OF_ANOTHER_BODY = ['Content-Encoding', 'Content-Disposition', 'Cache-Control', 'ETag', 'Repr-Digest', 'Accept-Ranges', 'Content-Security-Policy'];

/**
 * Answers a request with the status and text of an error from the error table. If another answer has begun, destroys
 * the connection, so that a partial answer doesn't look complete. Logs errors with a 5xx status, and every error after
 * an answer has begun.
 */
export function answerError(request: IncomingMessage, response: ServerResponse, error: ServiceError): void {
  const { status } = ERROR_TABLE[error.kind];
  const exchange = exchangeOf(request);
  if (exchange) exchange.refusal = { kind: error.kind, reason: error.message };
  if (error instanceof BodyAlreadyReadError) {
    logBodyAlreadyRead(request);
  } else if (status >= 500 || response.headersSent) {
    logger.error({ msg: error.message, kind: error.kind, requestId: exchange?.requestId, err: error });
  }
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  for (const name of OF_ANOTHER_BODY) response.removeHeader(name);
  if (error.kind !== 'range-not-satisfiable') response.removeHeader('Content-Range');
  if (error.retryAfterSeconds !== undefined) response.setHeader('Retry-After', String(error.retryAfterSeconds));
  // After a timeout, the rest of the request may never arrive, so the connection can't be reused. Node itself closes
  // the connection when `Expect: 100-continue` is refused.
  if (error.kind === 'request-timeout') response.setHeader('Connection', 'close');
  sendErrorJson(request, response, status, errorBody(error.kind));
}

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
  // Express and its middleware put the HTTP status on the error object.
  const status = exception instanceof Error && 'status' in exception ? exception.status : undefined;
  return typeof status === 'number' ? status : undefined;
};

/**
 * Converts any thrown value but a `ServiceError` to one, by its HTTP status; `internal` without a status. The message
 * of the value is kept only in the cause, because the message of a `ServiceError` is logged.
 */
export function toServiceError(exception: unknown): ServiceError {
  if (exception instanceof ServiceError) return exception;
  const status = statusOf(exception) ?? 500;
  const kind = KIND_OF_STATUS[status] ?? (status >= 400 && status < 500 ? 'bad-request' : 'internal');
  return new ServiceError(kind, kind, { cause: exception });
}
