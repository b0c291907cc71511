import type { IncomingMessage, ServerResponse } from 'node:http';
import { Logger } from '@nestjs/common';
import type { ServiceError } from '../common/service-error.js';
import { drain } from './drain.js';
import { ERROR_TABLE } from './error-table.js';
import { exchangeOf, hasBody } from './exchange.js';

const logger = new Logger('Http');

/** The body of every error answer: a single member (service interface, part 7). */
export const errorBody = (kind: ServiceError['kind']): string => JSON.stringify({ error: ERROR_TABLE[kind].text });

/**
 * Sends the answer of the error table, or breaks the connection where another answer has begun: what was promised
 * can't be kept any more, and must not end like something complete. Logs every 5xx with its cause.
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
  // The rest of the request may never come, so the connection can't go on. Node does the same for `Expect: 100-continue`.
  if (error.kind === 'request-timeout') response.setHeader('Connection', 'close');
  sendEarly(request, response, status, errorBody(error.kind));
}

/** Sends a JSON answer, of which the client may still be sending the request. */
export function sendEarly(request: IncomingMessage, response: ServerResponse, status: number, json: string): void {
  const body = Buffer.from(json);
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  if (request.complete || !hasBody(request)) {
    response.end(body);
    return;
  }
  // The answer goes out whole at once; its end waits, because Node may close the connection with it.
  response.write(body);
  const exchange = exchangeOf(request);
  if (exchange) exchange.isAnsweredEarly = true;
  void drain(request).then((complete) => {
    response.end(() => {
      if (!complete) request.socket.destroySoon();
    });
  });
}
