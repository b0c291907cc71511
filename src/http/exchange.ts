import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { inspect } from 'node:util';
import { Logger } from '@nestjs/common';
import { hasBody, targetPath } from './request-head.js';
import { drain } from './drain.js';

const logger = new Logger('Http');
const REQUEST_ID_HEADER = 'X-Request-Id';
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** One request and its response, with the state that Node and Express don't keep. */
export interface Exchange {
  readonly requestId: string;
  /** When the request's head had arrived, by `performance.now()`. */
  readonly startedAt: number;
  readonly request: IncomingMessage & WithSubject;
  /** The path of the request, cut to 256 characters. Kept because Express changes the request's URL. */
  readonly path: string;
  readonly response: ServerResponse;
  /** Whether the client still waits for `100 Continue` (RFC 9110, section 10.1.1). */
  awaitsContinue: boolean;
  /** The previous exchange of the connection, until it is over. */
  waitsFor: Exchange | undefined;
  /** Begins the answer when the previous exchange is over, unless the connection is lost by then. */
  onTurn: (() => void) | undefined;
  isOver: boolean;
  /** Whether `arrivedJson` has read the whole body, although `request.complete` may still be false. */
  isRead: boolean;
  /** Whether the whole answer was written while the client might still be sending. The response ends after `drain`. */
  isAnsweredEarly: boolean;
  /** When the request was logged, by `performance.now()`; undefined before. */
  endedAt: number | undefined;
  traceId: string | undefined;
  customerId: string | undefined;
  uploadId: string | undefined;
  refusal: { readonly kind: string; readonly reason: string } | undefined;
}

export type EndedExchange = Exchange & { readonly endedAt: number };

/** The server emits this event, with an `EndedExchange`, when the response was sent or the connection was lost. */
export const EXCHANGE_END = 'exchangeEnd';

/** The key of an exchange on its request and socket. A WeakMap would cost far more in garbage collection. */
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
  const before = (request.socket as InExchange)[EXCHANGE];
  const waitsFor = before?.isOver ? undefined : before;
  // All members at once: adding them one by one makes the object grow several times.
  const exchange: Exchange = {
    requestId: requestIdOf(request),
    startedAt: performance.now(),
    request,
    path,
    response,
    awaitsContinue,
    waitsFor,
    onTurn: undefined,
    isOver: false,
    isRead: false,
    isAnsweredEarly: false,
    endedAt: undefined,
    traceId: undefined,
    customerId: undefined,
    uploadId: undefined,
    refusal: undefined,
  };
  (request as InExchange)[EXCHANGE] = exchange;
  (request.socket as InExchange)[EXCHANGE] = exchange;
  return exchange;
}

export const exchangeOf = (request: IncomingMessage): Exchange | undefined => (request as InExchange)[EXCHANGE];

/** Notes, for the log, the customer whose uploads a request is about. The id must be valid. */
export function noteCustomer(request: IncomingMessage, customerId: string | undefined): void {
  const exchange = (request as InExchange)[EXCHANGE];
  if (exchange && customerId !== undefined) exchange.customerId = customerId;
}

/** Notes, for the log and for traces, the upload that a request has stored, or repeated. */
export function noteUpload(request: IncomingMessage, uploadId: string): void {
  const exchange = (request as InExchange)[EXCHANGE];
  if (exchange) exchange.uploadId = uploadId;
}

/** The exchange of the latest request on a connection; undefined if there was none. */
export const latestExchange = (socket: Socket): Exchange | undefined => (socket as InExchange)[EXCHANGE];

/** The key, on a request, of the `sub` claim of its token, for the log. */
export const SUBJECT = Symbol('subject');
export interface WithSubject {
  [SUBJECT]?: string;
}

/** What a request says of people: whose uploads it is about, and who sent it. */
export interface PersonalData {
  readonly customerId: string | undefined;
  readonly request: WithSubject;
}

/** The key of the personal data in a `LogEntry`. */
export const PERSONAL = Symbol('personal');

/**
 * A line of the log with members, for Nest's logger. Loggers that write JSON get the members, and Nest's own prints one
 * line.
 *
 * Customer and sender of a request aren't among the members, because they may be people. A logger that wants them must
 * read PERSONAL.
 */
export class LogEntry {
  declare readonly msg: string;
  declare readonly [PERSONAL]: PersonalData | undefined;

  constructor(members: { readonly msg: string; readonly [member: string]: unknown }, personal?: PersonalData) {
    Object.assign(this, members);
    // Personal data isn't enumerable, so it isn't in a copy of the entry that another logger makes.
    Object.defineProperty(this, PERSONAL, { value: personal });
  }

  [inspect.custom](): string {
    const { msg, ...members } = this;
    const shown = Object.entries(members).filter(([, value]) => value !== undefined);
    return [msg, ...shown.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
  }
}

/** Responses with this member add the headers of every answer themselves, when their head is written. */
export const ADDS_ANSWER_HEADERS = Symbol('addsAnswerHeaders');

/**
 * Makes the responses of a class add the headers of every answer when their head is written, unless a list of headers
 * that is given to `writeHead` begins with them.
 */
export function addAnswerHeaders(prototype: ServerResponse): void {
  const writeHead = Reflect.get<ServerResponse, 'writeHead'>(prototype, 'writeHead');
  Object.assign(prototype, {
    [ADDS_ANSWER_HEADERS]: true,
    writeHead(this: ServerResponse, statusCode: number, ...rest: readonly unknown[]): ServerResponse {
      const exchange = (this.req as InExchange)[EXCHANGE];
      const [headers] = rest;
      if (exchange && !(Array.isArray(headers) && headers[0] === REQUEST_ID_HEADER)) setAnswerHeaders(exchange);
      return writeHead.call(this, statusCode, ...(rest as []));
    },
  });
}

/** Sets the headers of every answer that aren't set yet. */
export function setAnswerHeaders({ response, requestId }: Exchange): void {
  if (!response.hasHeader(REQUEST_ID_HEADER)) response.setHeader(REQUEST_ID_HEADER, requestId);
  if (!response.hasHeader('X-Content-Type-Options')) response.setHeader('X-Content-Type-Options', 'nosniff');
}

/**
 * Sends an object, or the bytes of a JSON text, as the JSON answer of an operation. Handlers call this function instead
 * of returning the object, because an interceptor of the application could change a returned object.
 *
 * @param headers further headers: names and values in turn. If possible, all headers go to `writeHead` together:
 *   setting each by itself took 2 to 5 % of the time of a small upload.
 */
export function sendJson(response: ServerResponse, body: object, headers: readonly string[] = []): void {
  const json = Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const all = [...headers, 'Content-Type', 'application/json; charset=utf-8', 'Content-Length', String(Buffer.byteLength(json))];
  const exchange = (response.req as InExchange)[EXCHANGE];
  if (exchange && response.getHeaderNames().length === 0 && !Object.hasOwn(response, 'writeHead')) {
    response.writeHead(response.statusCode, [REQUEST_ID_HEADER, exchange.requestId, 'X-Content-Type-Options', 'nosniff', ...all]);
  } else {
    // Middleware that wraps `writeHead` may not know headers in one list, as `on-headers` before 1.1.0.
    for (let at = 0; at < all.length; at += 2) response.setHeader(all[at] ?? '', all[at + 1] ?? '');
  }
  response.end(json);
}

interface Chunk {
  readonly chunk: string | Buffer;
  readonly encoding: BufferEncoding;
}

/** What Node's sockets implement to write one chunk, or several at once. */
const ofNode = Socket.prototype as unknown as {
  readonly _write: (this: Socket, chunk: Chunk['chunk'], encoding: BufferEncoding, done: () => void) => void;
  _writev: (this: Socket, chunks: readonly Chunk[], done: () => void) => void;
};

/**
 * Makes a connection write a short answer as one text. For `response.end(text)`, Node gives the connection two chunks:
 * the head with the text, and an empty one. Writing the two at once takes longer than writing the first: for a small
 * upload, 3 % of its time.
 */
export function writeShortAnswersAtOnce(socket: Socket & Partial<typeof ofNode>): void {
  // Another kind of connection has a method of its own, or none.
  if (socket._writev === ofNode._writev) socket._writev = writeChunks;
}

function writeChunks(this: Socket, chunks: readonly Chunk[], done: () => void): void {
  const [first, second] = chunks;
  if (first && chunks.length === 2 && second?.chunk.length === 0) ofNode._write.call(this, first.chunk, first.encoding, done);
  else ofNode._writev.call(this, chunks, done);
}

/** Sends the JSON answer of an error. If the client is still sending its request, the response ends after `drain`. */
export function sendErrorJson(request: IncomingMessage, response: ServerResponse, status: number, json: string): void {
  const body = Buffer.from(json);
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  const exchange = (request as InExchange)[EXCHANGE];
  if (request.complete || exchange?.isRead || !hasBody(request)) {
    response.end(body);
    return;
  }
  endAfterDrain(request, response, body);
}

/**
 * Sends the last bytes of an answer while the client is still sending its request, and ends the response after `drain`:
 * at that end, Node may close the connection.
 */
function endAfterDrain(request: IncomingMessage, response: ServerResponse, last?: Uint8Array): void {
  if (last && request.method !== 'HEAD') response.write(last);
  else response.flushHeaders();
  const exchange = (request as InExchange)[EXCHANGE];
  if (exchange) exchange.isAnsweredEarly = true;
  void drain(request).then((complete) => {
    response.end(() => {
      if (!complete) request.socket.destroySoon();
    });
  }).catch((err: unknown) => {
    // Fewer bytes were sent than the Content-Length says. So that no client takes them for the whole answer, it is broken off.
    logger.error({ msg: 'An answer broke off.', requestId: exchange?.requestId, err });
    response.destroy();
  });
}

/** Makes the response of a request whose handler reads no body end after `drain`, if the client is still sending then. */
export function drainBeforeEnd(exchange: Exchange): void {
  const { request, response } = exchange;
  const end = response.end.bind(response) as (...last: unknown[]) => ServerResponse;
  const endLater = (...last: unknown[]): ServerResponse => {
    if (request.complete || exchange.isAnsweredEarly) return end(...last);
    const [chunk, encoding] = last;
    const done = last.find((each) => typeof each === 'function') as (() => void) | undefined;
    if (done) response.once('finish', done);
    const text = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8') : undefined;
    endAfterDrain(request, response, chunk instanceof Uint8Array ? chunk : text);
    return response;
  };
  Object.assign(response, { end: endLater });
}

/**
 * Breaks the connection of a response if its client reads nothing for `idleTimeoutMs` although bytes wait for it. So a
 * client can't keep an answer in memory by not reading it.
 */
export function breakIfUnread(response: ServerResponse, idleTimeoutMs: number): void {
  response.setTimeout(idleTimeoutMs, () => {
    if (response.writableLength > 0) response.destroy();
  });
}
