import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { hasBody } from './content-headers.js';
import { drain } from './drain.js';
import { targetPath } from './request-head.js';

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** One request and its response, with the state that Node and Express don't keep. */
export interface Exchange {
  readonly requestId: string;
  readonly startedAt: number;
  readonly request: IncomingMessage;
  /** The requested path, cut to 256 characters. Kept because Express changes the URL while it looks for a file. */
  readonly path: string;
  readonly response: ServerResponse;
  /** The client waits for `100 Continue` before it sends its body (RFC 9110, section 10.1.1). */
  awaitsContinue: boolean;
  /** Every byte of the request has been read, although Node may not count it as complete yet. */
  isRead?: boolean;
  /** The whole answer has been written, but the client may still be sending its request. */
  isAnsweredEarly?: boolean;
  /** Why the request was refused, for the log. */
  refusal?: { readonly kind: string; readonly reason: string };
}

/** The event that the server emits with an `Exchange` when its response has been sent or its connection is gone. */
export const EXCHANGE_END = 'exchangeEnd';

/** The member of a request or connection that is its exchange. Weak maps would cost far more to collect. */
const EXCHANGE = Symbol('exchange');
interface InExchange {
  [EXCHANGE]?: Exchange;
}

/** The client's `X-Request-Id` if it is valid, otherwise a new id. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}

export function beginExchange(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): Exchange {
  const path = targetPath(request.url ?? '').slice(0, 256);
  const exchange: Exchange = { requestId: requestIdOf(request), startedAt: performance.now(), request, path, response, awaitsContinue };
  (request as InExchange)[EXCHANGE] = exchange;
  (request.socket as InExchange)[EXCHANGE] = exchange;
  return exchange;
}

export const exchangeOf = (request: IncomingMessage): Exchange | undefined => (request as InExchange)[EXCHANGE];

/** The most recent exchange on a connection. */
export const latestExchange = (socket: Socket): Exchange | undefined => (socket as InExchange)[EXCHANGE];

/** Sends a JSON answer. The client may still be sending its request. */
export function sendEarly(request: IncomingMessage, response: ServerResponse, status: number, json: string): void {
  const body = Buffer.from(json);
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  const exchange = exchangeOf(request);
  if (request.complete || exchange?.isRead || !hasBody(request)) {
    response.end(body);
    return;
  }
  // The body is written at once, but the response ends only after the drain, because Node may close the connection when
  // the response ends.
  response.write(body);
  if (exchange) exchange.isAnsweredEarly = true;
  void drain(request).then((complete) => {
    response.end(() => {
      if (!complete) request.socket.destroySoon();
    });
  });
}
