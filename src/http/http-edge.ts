import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Logger } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../common/service-error.js';
import { trimBlanks } from '../common/text.js';
import { bodyPace } from './body-pace.js';
import { hasBody, requestHeadDefect } from './request-head.js';
import { drain } from './drain.js';
import { ERROR_TABLE } from './error-table.js';
import { beginExchange, type Exchange, EXCHANGE_END, latestExchange, requestIdOf } from './exchange.js';
import { answerError, errorBody } from './service-exception.filter.js';

const logger = new Logger('Http');
/** `rawPacket` is the last packet received, if Node still has it. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/** How long a connection may stay open after a parser error has been answered, in milliseconds. */
const LINGER_MS = 5_000;

type Receive = (request: IncomingMessage, response: ServerResponse, awaitsContinue?: boolean) => void;

/**
 * Returns a function that passes requests to the handlers that the server has now, each as an `Exchange` with a request
 * id and a line in the log.
 */
function receiver(server: Server): Receive {
  const handlers = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[];
  return (request, response, awaitsContinue = false) => {
    const exchange = beginExchange(request, response, awaitsContinue);
    response.setHeader('X-Request-Id', exchange.requestId);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // While the service stops, the server no longer listens, and each connection is closed after its answer. Otherwise
    // a client that never pauses could keep its connection open forever.
    if (!server.listening) response.shouldKeepAlive = false;
    response.once('close', () => {
      endExchange(exchange);
      server.emit(EXCHANGE_END, exchange);
    });
    const defect = requestHeadDefect(request);
    if (defect !== undefined) {
      // A proxy in front of the service may disagree about where this request ends, so the connection isn't reused.
      response.setHeader('Connection', 'close');
      answerError(request, response, new ServiceError('bad-request', defect));
      return;
    }
    for (const handle of handlers) handle.call(server, request, response);
  };
}

/**
 * Gives the chosen requests a request id and a line in the log, and refuses their invalid heads. `100 Continue` is sent
 * to them when their body is read. All other requests are handled as if this function hadn't been called.
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
      // Node does the same when nobody listens to this event.
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
 * Handles what Node's HTTP server would handle by itself, so that every answer has the interface's form and a request
 * id: requests that the parser refuses, invalid heads that the parser accepts, CONNECT, and `Expect`. Logs one line per
 * request.
 */
export function guardHttpEdge(server: Server): void {
  const receive = receiver(server);

  // By default Node would drop all headers beyond a fixed number, even those that frame the body. The total size of the
  // headers is limited anyway.
  // Half-open connections let a client close its side after sending its request and still get the answer.
  Object.assign(server, { requireHostHeader: false, maxHeadersCount: 0, httpAllowHalfOpen: true });
  server.removeAllListeners('request').on('request', receive);
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    receive(request, response, true);
  });
  // RFC 9110, section 10.1.1, allows a server to ignore unknown expectations.
  server.on('checkExpectation', receive);
  server.on('connection', () => { bodyPace.arrived(); });
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    answerInTurn(socket, requestHeadDefect(request) === undefined ? 'not-found' : 'bad-request', requestIdOf(request));
  });
  server.on('clientError', (error: ParserError, socket: Socket) => {
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else answerInTurn(socket, kindOfParserError(error), unparsedRequestId(error, socket));
  });
}

/**
 * The request id in the packet that the parser refused, if the packet contains exactly one id, which is valid and isn't
 * the id of the connection's latest request. Otherwise a new id.
 */
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
 * Answers an error for which there is no response object. If the connection's latest request is complete, the error is
 * answered after that request. Otherwise the error is in the latest request. The error is then its answer, unless
 * another answer to that request has begun: then the connection is closed without a further answer.
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
    before.response.end(() => {
      socket.destroySoon();
    });
  } else if (before.response.headersSent) {
    socket.destroy();
  } else {
    logExchange(before, ERROR_TABLE[kind].status, parserRefusal(kind));
    sendByHand(socket, kind, before.requestId);
  }
}

const parserRefusal = (kind: ErrorKind) => ({ kind, reason: 'refused by the HTTP parser' });

/** Answers a request that has no exchange, and logs it. */
function answerSocket(socket: Socket, kind: ErrorKind, requestId: string): void {
  logger.log({ msg: 'request', requestId, status: ERROR_TABLE[kind].status, ...parserRefusal(kind) });
  sendByHand(socket, kind, requestId);
}

function sendByHand(socket: Socket, kind: ErrorKind, requestId: string): void {
  const { status, text } = ERROR_TABLE[kind];
  const body = errorBody(kind);
  socket.end(
    [
      `HTTP/1.1 ${status} ${text.slice(0, -1)}`,
      `X-Request-Id: ${requestId}`,
      'X-Content-Type-Options: nosniff',
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => {
    clearTimeout(timer);
  });
}

function logExchange(exchange: Exchange, status: number | undefined, details: object): void {
  if (exchange.isLogged) return;
  exchange.isLogged = true;
  const { requestId, startedAt, path, request } = exchange;
  const ms = Math.round((performance.now() - startedAt) * 10) / 10;
  logger.log({ msg: 'request', requestId, method: request.method, path, status, ms, ...details });
}

/**
 * Logs the request. After an answer to an incomplete request, drains the rest of the request, so that the connection
 * can be reused. Closes the connection if the request stays incomplete.
 */
function endExchange(exchange: Exchange): void {
  const { refusal, request, response, isRead } = exchange;
  const status = response.headersSent ? response.statusCode : undefined;
  logExchange(exchange, status, { ...refusal, ...(response.writableFinished ? {} : { aborted: true }) });
  if (request.complete || isRead || !response.writableFinished || !hasBody(request)) return;
  void drain(request).then((complete) => {
    if (!complete) request.socket.destroySoon();
  });
}
