import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { inspect } from 'node:util';
import { hasBody, targetPath } from './request-head.js';
import { drain } from './drain.js';

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** One request and its response, with the state that Node and Express don't keep. */
export interface Exchange {
  readonly requestId: string;
  /** When the request's head had arrived, on the clock of `performance.now()`. */
  readonly startedAt: number;
  readonly request: IncomingMessage;
  /** The requested path, cut to 256 characters. Kept because Express changes the URL of the request. */
  readonly path: string;
  readonly response: ServerResponse;
  /** Whether the client still waits for `100 Continue` (RFC 9110, section 10.1.1). False once that has been sent. */
  awaitsContinue: boolean;
  /**
   * Handles this request, or answers it with an error, when the connection's previous exchange is over, unless the
   * connection is lost. Undefined from then on, and for a request that doesn't have to wait.
   */
  onTurn?: (() => void) | undefined;
  /** Whether the response has been sent, or the connection was lost before that. */
  isOver?: boolean;
  /**
   * True once `arrivedJson` has read the whole body, although `request.complete` of Node may still be false. Not set by
   * other readers.
   */
  isRead?: boolean;
  /**
   * True once `sendErrorJson` has written its whole answer while the client might still be sending its request. The
   * response is ended later, when `drain` has ended.
   */
  isAnsweredEarly?: boolean;
  /**
   * When the request's line was written to the log, on the clock of `performance.now()`; undefined before. The line is
   * written when the exchange is over, or earlier, if the request is answered with an error of the HTTP parser.
   */
  endedAt?: number;
  /** The id of the trace to which the request belongs, for the log. Undefined if the request isn't traced. */
  traceId?: string;
  /** The customer whose uploads the request is about, as soon as it is known. */
  customerId?: string;
  /** Why the request was refused or failed, for the log. Set by `answerError`; undefined before. */
  refusal?: { readonly kind: string; readonly reason: string };
}

export type EndedExchange = Exchange & { readonly endedAt: number };

/**
 * The server emits this event, with an `EndedExchange`, when the response has been sent, or when the connection was lost
 * before that.
 */
export const EXCHANGE_END = 'exchangeEnd';

/**
 * The property that holds the exchange of a request, or the latest exchange of a connection. A WeakMap would cost far
 * more in garbage collection.
 */
const EXCHANGE = Symbol('exchange');
interface InExchange {
  [EXCHANGE]?: Exchange;
}

/** The client's `X-Request-Id` if that is 1 to 128 characters of `A-Z a-z 0-9 . _ -`, otherwise a new id. */
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

/** Notes, for the log, the customer whose uploads a request is about. The id must be valid. */
export function noteCustomer(request: IncomingMessage, customerId: string | undefined): void {
  const exchange = exchangeOf(request);
  if (exchange && customerId !== undefined) exchange.customerId = customerId;
}

/** The exchange of the latest request on a connection; undefined if there was none. */
export const latestExchange = (socket: Socket): Exchange | undefined => (socket as InExchange)[EXCHANGE];

/** The member of a `LogEntry` that has the customer whose uploads the request is about. */
export const CUSTOMER_ID = Symbol('customerId');

/**
 * A line of the log with members, for Nest's logger. Loggers that write JSON get the members. Nest's own logger would
 * print a plain object over many lines, but prints this one as one line: the message, and the members that aren't
 * undefined.
 *
 * The customer of a request isn't among the members, because customers may be households, whose data is personal. A
 * logger must read CUSTOMER_ID to get it. The service's logger does so only with `LOG_CUSTOMERS`.
 */
export class LogEntry {
  declare readonly msg: string;
  declare readonly [CUSTOMER_ID]: string | undefined;

  constructor(members: { readonly msg: string; readonly [member: string]: unknown }, customerId?: string) {
    Object.assign(this, members);
    // Not enumerable, so that it isn't in a copy of the entry that another logger makes.
    Object.defineProperty(this, CUSTOMER_ID, { value: customerId });
  }

  [inspect.custom](): string {
    const { msg, ...members } = this;
    const shown = Object.entries(members).filter(([, value]) => value !== undefined);
    return [msg, ...shown.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
  }
}

/**
 * Sends an object, or the bytes of a JSON text, as the JSON answer of an operation. The status is
 * `response.statusCode`, which Nest has set, for example from `@HttpCode`. Handlers call this function instead of
 * returning the object, because an interceptor of the application could change what a handler returns.
 */
export function sendJson(response: ServerResponse, body: object): void {
  const json = Buffer.isBuffer(body) ? body : JSON.stringify(body);
  response.writeHead(response.statusCode, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(json),
  });
  response.end(json);
}

/**
 * Sends the JSON answer of an error. If the client is still sending its request, reads and discards the rest of the
 * request (`drain`) before ending the response, and closes the connection if not all of the rest arrives.
 */
export function sendErrorJson(request: IncomingMessage, response: ServerResponse, status: number, json: string): void {
  const body = Buffer.from(json);
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  const exchange = exchangeOf(request);
  if (request.complete || exchange?.isRead || !hasBody(request)) {
    response.end(body);
    return;
  }
  // The answer's body is written at once. But the response ends only after the rest of the request was drained, because
  // Node may close the connection when the response ends.
  response.write(body);
  if (exchange) exchange.isAnsweredEarly = true;
  void drain(request).then((complete) => {
    response.end(() => {
      if (!complete) request.socket.destroySoon();
    });
  });
}

/**
 * Breaks the connection of a response if its client reads nothing for `idleTimeoutMs`, in milliseconds, although bytes
 * wait for it. So a client that doesn't read its answer can't keep it in memory. The time in which the service has
 * nothing to send doesn't count.
 */
export function breakIfUnread(response: ServerResponse, idleTimeoutMs: number): void {
  response.setTimeout(idleTimeoutMs, () => {
    if (response.writableLength > 0) response.destroy();
  });
}
