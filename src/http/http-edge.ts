import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { Logger } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../common/service-error.js';
import { trimBlanks } from '../common/text.js';
import { bodyPace } from './body-pace.js';
import { hasBody, requestHeadDefect } from './request-head.js';
import { closeAfterDrain, drain } from './drain.js';
import { ERROR_TABLE } from './error-table.js';
import { ADDS_ANSWER_HEADERS, beginExchange, breakIfUnread, drainBeforeEnd, type Exchange, EXCHANGE_END, exchangeOf, latestExchange, LogEntry, requestIdOf, setAnswerHeaders, writeShortAnswersAtOnce } from './exchange.js';
import type { DirectRoute } from './route-table.js';
import { gatherShortChunks } from './short-chunks.js';
import { answerError, errorBody, toServiceError } from './service-exception.filter.js';
import { WaitingRequests } from './waiting-requests.js';

const logger = new Logger('Http');
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

const waiting = new WaitingRequests();

type Receive = (request: IncomingMessage, response: ServerResponse, awaitsContinue?: boolean) => void;

/** What Express and its router add to a request or response. */
interface MembersOfExpress {
  res?: ServerResponse;
  originalUrl?: string;
  baseUrl?: string;
  params?: object;
  route?: object;
  next?: (error?: unknown) => void;
  locals?: object;
}

/** Values that an Express handler passes to `next` without reporting an error. */
const NO_ERRORS: ReadonlySet<unknown> = new Set([undefined, null, 'route', 'router']);

/**
 * Returns a listener for requests that calls the handlers of direct routes itself, and passes all other requests on to
 * Express (ADR 25).
 *
 * @param routes direct routes by method and path, such as `GET /roles`. May be filled later.
 */
export function dispatcher(express: RequestListener, routes: ReadonlyMap<string, DirectRoute>): RequestListener {
  return (request, response) => {
    const { method, url = '' } = request;
    const end = url.indexOf('?');
    const direct = routes.get(`${method} ${end < 0 ? url : url.slice(0, end)}`);
    if (!direct) {
      // At once, because an Express application within this one changes the prototype of the response.
      const exchange = exchangeOf(request);
      if (exchange) setAnswerHeaders(exchange);
      express(request, response);
      return;
    }
    const next = (error?: unknown): void => {
      answerError(request, response, NO_ERRORS.has(error) ? new ServiceError('not-found') : toServiceError(error));
    };
    (response as MembersOfExpress).locals ??= {};
    const members = request as MembersOfExpress;
    members.res = response;
    members.originalUrl = url;
    members.baseUrl = '';
    members.params = {};
    members.route = direct.route;
    members.next = next;
    direct.handler.handleRequest(request, response, next);
  };
}

/** The methods whose handlers read no body. It has no meaning (RFC 9110, section 9.3), but a client may send one. */
const WITHOUT_BODY: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS']);

/** Returns a function that passes valid requests to the server's present handlers, one at a time per connection. */
function receiver(server: Server): Receive {
  const handlers = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[];
  // Over TLS, adds the TLS connection: `reading` of the TCP connection below it doesn't say whether it is read.
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => { waiting.addConnection(socket); });
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const defect = requestHeadDefect(request);
    if (defect !== undefined) {
      // A proxy in front of the service may see the end of an invalid request elsewhere: the connection isn't reused.
      response.setHeader('Connection', 'close');
      answerError(request, response, new ServiceError('bad-request', defect));
      return;
    }
    for (const handler of handlers) handler.call(server, request, response);
  };
  return (request, response, awaitsContinue = false) => {
    const exchange = beginExchange(request, response, awaitsContinue);
    const { 'transfer-encoding': coding, 'content-length': length } = request.headers;
    if (coding !== undefined) gatherShortChunks(request);
    // Like `hasBody`, without a call for each request.
    if ((length ?? coding ?? '0') !== '0' && WITHOUT_BODY.has(request.method)) drainBeforeEnd(exchange);
    if (!(ADDS_ANSWER_HEADERS in response)) setAnswerHeaders(exchange);
    // Keep-alive ends while the service stops. Otherwise a busy client could keep its connection open forever.
    if (!server.listening) response.shouldKeepAlive = false;
    response.once('close', () => {
      exchange.isOver = true;
      logExchange(exchange, response.headersSent ? response.statusCode : undefined, exchange.refusal, response.writableFinished ? undefined : true);
      if (!request.complete) drainRest(exchange);
      server.emit(EXCHANGE_END, exchange);
    });
    if (!exchange.waitsFor) {
      handle(request, response);
      return;
    }
    exchange.onTurn = () => { handle(request, response); };
    // `headersTimeout` also limits how long an answer may go unread.
    waitForTurn(exchange, exchange.waitsFor, server.headersTimeout);
  };
}

function waitForTurn(exchange: Exchange, before: Exchange, idleTimeoutMs: number): void {
  const { response, request: { socket } } = exchange;
  waiting.add(socket);
  socket.pause();
  breakIfUnread(before.response, idleTimeoutMs);
  before.response.once('close', () => {
    const others = waiting.remove(socket);
    // The socket is paused again while requests wait, because Node resumes it after each answer.
    if (others > 0) socket.pause();
    else breakIfUnread(response, idleTimeoutMs);
    // Also if the answer before it was the connection's last: a request behind it must not be handled (RFC 9112, 9.6).
    const isLost = (): boolean => socket.destroyed || socket.writableEnded;
    const takeTurn = (): void => {
      const { onTurn } = exchange;
      exchange.onTurn = undefined;
      exchange.waitsFor = undefined;
      if (others === 0) socket.resume();
      // Emits the `close` that Node doesn't emit for a response that was still waiting when the connection was lost.
      if (isLost()) response.emit('close');
      else onTurn?.();
    };
    // A client may send a thousand requests at once, so other connections are served between two of them. Those of a lost
    // connection end at once: otherwise new ones could arrive faster than they release their memory.
    if (isLost()) queueMicrotask(takeTurn);
    else setImmediate(takeTurn);
  });
}

/**
 * For an application of which the service is only a part. Gives the requests for which `isChosen` is true a request id
 * and a line in the log, and refuses those with an invalid head. Other requests are handled as before.
 */
export function guardRoutes(server: Server, isChosen: (request: IncomingMessage) => boolean): void {
  const receive = receiver(server);
  const handlers = server.listeners('request') as Receive[];
  const others = { continue: server.listenerCount('checkContinue'), expectation: server.listenerCount('checkExpectation') };
  const receiveOther: Receive = (request, response) => {
    for (const handle of handlers) handle.call(server, request, response);
  };
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (isChosen(request)) receive(request, response);
    else receiveOther(request, response);
  });
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (isChosen(request)) {
      receive(request, response, true);
    } else if (others.continue === 0) {
      response.writeContinue();
      receiveOther(request, response);
    }
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    if (isChosen(request)) receive(request, response);
    else if (others.expectation === 0) response.writeHead(417).end();
  });
  server.on('connection', () => { bodyPace.arrived(); });
}

/**
 * For an application that is the service as a whole. Like `guardRoutes` for all requests. Also answers what Node's HTTP
 * server would otherwise answer by itself: requests that the parser refuses, CONNECT, and `Expect`.
 */
export function guardHttpEdge(server: Server): void {
  const receive = receiver(server);
  server.on('connection', writeShortAnswersAtOnce);

  // `requestHeadDefect` checks Host instead of Node. The number of headers isn't limited, because Node would drop
  // further headers, even one that frames the body, such as Content-Length; their total size is limited anyway.
  // Half-open connections let a client close its side after sending its request and still get the answer.
  Object.assign(server, { requireHostHeader: false, maxHeadersCount: 0, httpAllowHalfOpen: true });
  server.removeAllListeners('request').on('request', receive);
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    receive(request, response, true);
  });
  // An unknown expectation is ignored (allowed by RFC 9110, section 10.1.1).
  server.on('checkExpectation', receive);
  server.on('connection', () => { bodyPace.arrived(); });
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    // After CONNECT, Node handles no errors of the connection, and an error without a listener would end the process.
    socket.on('error', () => socket.destroy());
    answerInTurn(socket, requestHeadDefect(request) === undefined ? 'not-found' : 'bad-request', requestIdOf(request));
  });
  const refused = new WeakSet<Socket>();
  server.on('clientError', (error: ParserError, socket: Socket) => {
    // Only a connection's first error is answered: the parser reports more for packets that arrive after it.
    if (refused.has(socket)) return;
    refused.add(socket);
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else answerInTurn(socket, kindOfParserError(error), unparsedRequestId(error, socket));
  });
}

function unparsedRequestId({ rawPacket }: ParserError, socket: Socket): string {
  const lines = (rawPacket?.toString('latin1') ?? '').split(/\r?\n/).filter((line) => /^x-request-id:/i.test(line));
  const found = lines.map((line) => trimBlanks(line.slice(line.indexOf(':') + 1)));
  const id = found.length === 1 && found[0] !== latestExchange(socket)?.requestId ? found[0] : undefined;
  return requestIdOf({ headers: { 'x-request-id': id } });
}

function kindOfParserError({ code }: ParserError): ErrorKind {
  if (code === 'HPE_HEADER_OVERFLOW') return 'header-fields-too-large';
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request-timeout' : 'bad-request';
}

/**
 * Answers an error of the HTTP parser, or CONNECT. If the connection's latest request has arrived completely, the error
 * is about a later request, and is answered after it. Otherwise the error is about the latest request itself.
 */
function answerInTurn(socket: Socket, kind: ErrorKind, requestId: string): void {
  const before = latestExchange(socket);
  if (!before || before.response.writableFinished) {
    answerSocket(socket, kind, requestId);
  } else if (before.request.complete) {
    before.response.once('finish', () => {
      answerSocket(socket, kind, requestId);
    });
  } else if (before.isAnsweredEarly) {
    // The listeners for `finish` are removed, because Node's own could close the connection at once.
    before.response.removeAllListeners('finish').end();
    closeAfterDrain(socket);
  } else if (before.response.headersSent) {
    socket.destroy();
  } else if (before.onTurn) {
    before.onTurn = () => { answerInstead(before, socket, kind); };
  } else {
    answerInstead(before, socket, kind);
  }
}

function answerInstead(exchange: Exchange, socket: Socket, kind: ErrorKind): void {
  logExchange(exchange, ERROR_TABLE[kind].status, parserRefusal(kind));
  sendByHand(socket, kind, exchange.requestId, exchange.request.method);
}

const parserRefusal = (kind: ErrorKind) => ({ kind, reason: 'refused by the HTTP parser' });

function answerSocket(socket: Socket, kind: ErrorKind, requestId: string): void {
  logger.log(new LogEntry({ msg: 'request', requestId, status: ERROR_TABLE[kind].status, ...parserRefusal(kind) }));
  sendByHand(socket, kind, requestId);
}

function sendByHand(socket: Socket, kind: ErrorKind, requestId: string, method?: string): void {
  const { status, text } = ERROR_TABLE[kind];
  const body = errorBody(kind);
  closeAfterDrain(
    socket,
    [
      `HTTP/1.1 ${status} ${text.slice(0, -1)}`,
      `X-Request-Id: ${requestId}`,
      'X-Content-Type-Options: nosniff',
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      method === 'HEAD' ? '' : body,
    ].join('\r\n'),
  );
}

function logExchange(exchange: Exchange, status: number | undefined, refusal: Exchange['refusal'], aborted?: true): void {
  if (exchange.endedAt !== undefined) return;
  const endedAt = performance.now();
  exchange.endedAt = endedAt;
  const { requestId, startedAt, path, request: { method }, traceId: trace_id, uploadId } = exchange;
  const ms = Math.round((endedAt - startedAt) * 10) / 10;
  logger.log(new LogEntry({ msg: 'request', requestId, trace_id, method, path, status, ms, uploadId, kind: refusal?.kind, reason: refusal?.reason, aborted }, exchange));
}

/** Reads the rest of a request that was answered early, so that the connection can be reused. */
function drainRest({ request, response, isRead }: Exchange): void {
  if (isRead || !response.writableFinished || !hasBody(request)) return;
  void drain(request).then((complete) => {
    if (!complete) request.socket.destroySoon();
  });
}
