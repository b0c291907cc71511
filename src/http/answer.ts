import type { IncomingMessage, ServerResponse } from 'node:http';
import { Logger } from '@nestjs/common';
import type { ServiceError } from '../common/service-error.js';
import { drain } from './drain.js';
import { ERROR_TABLE } from './error-table.js';
import { exchangeOf, hasBody } from './exchange.js';

const logger = new Logger('Http');

/** The body of every error answer. It has a single member (service interface, part 7). */
export const errorBody = (kind: ServiceError['kind']): string => JSON.stringify({ error: ERROR_TABLE[kind].text });

/**
 * Sends the error table's answer. If another answer has begun, destroys the connection instead, so that a partial
 * answer doesn't look complete. Logs the cause of every 5xx.
 */
export function answerError(request: IncomingMessage, response: ServerResponse, error: ServiceError): void {
  const { status } = ERROR_TABLE[error.kind];
  const exchange = exchangeOf(request);
  if (exchange) exchange.refusal = { kind: error.kind, reason: error.message };
  if (status >= 500 || response.headersSent) {
    logger.error({ msg: error.message, kind: error.kind, requestId: exchange?.requestId, err: error });
  }
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  for (const name of ['Content-Encoding', 'Content-Disposition', 'Cache-Control']) response.removeHeader(name);
  if (error.retryAfterSeconds !== undefined) response.setHeader('Retry-After', String(error.retryAfterSeconds));
  // The rest of the request may never arrive, so the connection can't be reused. Node itself closes the connection when
  // `Expect: 100-continue` is refused.
  if (error.kind === 'request-timeout') response.setHeader('Connection', 'close');
  sendEarly(request, response, status, errorBody(error.kind));
}

/** Sends a JSON answer. The client may still be sending its request. */
export function sendEarly(request: IncomingMessage, response: ServerResponse, status: number, json: string): void {
  const body = Buffer.from(json);
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  if (request.complete || !hasBody(request)) {
    response.end(body);
    return;
  }
  // The body is written at once, but the response ends only after the drain, because Node may close the connection when
  // the response ends.
  response.write(body);
  const exchange = exchangeOf(request);
  if (exchange) exchange.isAnsweredEarly = true;
  void drain(request).then((complete) => {
    response.end(() => {
      if (!complete) request.socket.destroySoon();
    });
  });
}
