import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
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
  /** The whole answer has been written, but the client may still be sending its request. */
  isAnsweredEarly?: boolean;
  /** Why the request was refused, for the log. */
  refusal?: { readonly kind: string; readonly reason: string };
}

const exchanges = new WeakMap<IncomingMessage, Exchange>();
const latest = new WeakMap<Socket, Exchange>();

/** The client's `X-Request-Id` if it is valid, otherwise a new id. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}

export function beginExchange(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): Exchange {
  const path = targetPath(request.url ?? '').slice(0, 256);
  const exchange: Exchange = { requestId: requestIdOf(request), startedAt: performance.now(), request, path, response, awaitsContinue };
  exchanges.set(request, exchange);
  latest.set(request.socket, exchange);
  return exchange;
}

export const exchangeOf = (request: IncomingMessage): Exchange | undefined => exchanges.get(request);

/** The most recent exchange on a connection. */
export const latestExchange = (socket: Socket): Exchange | undefined => latest.get(socket);

/** Whether the request's framing announces a body (RFC 9112, section 6.3). A chunked body may still be empty. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || (declaredLength(headers) ?? 0) > 0;

/** Content-Length in bytes; undefined without that header. */
export const declaredLength = (headers: IncomingMessage['headers']): number | undefined =>
  headers['content-length'] === undefined ? undefined : Number(headers['content-length']);
