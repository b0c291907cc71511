import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Logger } from '@nestjs/common';
import { type ErrorKind, ServiceError } from '../common/service-error.js';
import { trimBlanks } from '../common/text.js';
import { answerError, errorBody } from './answer.js';
import { arrivals } from './arrivals.js';
import { drain } from './drain.js';
import { ERROR_TABLE } from './error-table.js';
import { beginExchange, type Exchange, hasBody, latestExchange, requestIdOf } from './exchange.js';
import { requestHeadDefect } from './request-head.js';

const logger = new Logger('Http');
/** With what came in last, as far as Node still has it. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/** How long a connection may linger after an answer of its own to what the parser refused. */
const LINGER_MS = 5_000;

/**
 * Takes over what Node's HTTP server would answer by itself, so that every answer has the interface's form and an id:
 * refusals of the parser, heads that only the parser takes for valid, CONNECT, and `Expect`. Logs a line for each request.
 */
export function guardHttpEdge(server: Server): void {
  const handlers = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[];
  const receive = (request: IncomingMessage, response: ServerResponse, awaitsContinue = false): void => {
    const exchange = beginExchange(request, response, awaitsContinue);
    response.setHeader('X-Request-Id', exchange.requestId);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.once('close', () => {
      logRequest(request, response, exchange);
    });
    response.once('finish', () => {
      releaseRequest(request);
    });
    const defect = requestHeadDefect(request);
    if (defect !== undefined) {
      // Where this request ends may be read in another way by a proxy in front.
      response.setHeader('Connection', 'close');
      answerError(request, response, new ServiceError('bad-request', defect));
      return;
    }
    for (const handle of handlers) handle.call(server, request, response);
  };

  // Past a number of headers Node would drop the rest, and with it what frames the body; their bytes are limited anyway.
  // A client that has sent all may close its side, and still gets the answer.
  Object.assign(server, { requireHostHeader: false, maxHeadersCount: 0, httpAllowHalfOpen: true });
  server.removeAllListeners('request').on('request', receive);
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    receive(request, response, true);
  });
  // An expectation that we don't know may be passed over (RFC 9110, 10.1.1).
  server.on('checkExpectation', receive);
  server.on('connection', () => { arrivals.arrived(); });
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    answerInTurn(socket, requestHeadDefect(request) === undefined ? 'not-found' : 'bad-request', requestIdOf(request));
  });
  server.on('clientError', (error: ParserError, socket: Socket) => {
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else answerInTurn(socket, kindOfParserError(error), unparsedRequestId(error, socket));
  });
}

/** The id that stands in what the parser refused, if there is just one and no other request's; otherwise a new one. */
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

/** After an answer that came early: what the client still sends is drained, so that the connection can go on. */
function releaseRequest(request: IncomingMessage): void {
  if (request.complete || !hasBody(request)) return;
  void drain(request).then((complete) => {
    if (!complete) request.socket.destroySoon();
  });
}

/** Answers what has no response object: behind the answer to the request before it, or in place of that. */
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
    answerSocket(socket, kind, before.requestId);
  }
}

function answerSocket(socket: Socket, kind: ErrorKind, requestId: string): void {
  const { status, text } = ERROR_TABLE[kind];
  const body = errorBody(kind);
  logger.log({ msg: 'request', requestId, status, kind, reason: 'refused by the HTTP parser' });
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

function logRequest(request: IncomingMessage, response: ServerResponse, exchange: Exchange): void {
  const { requestId, startedAt, path, refusal } = exchange;
  logger.log({
    msg: 'request',
    requestId,
    method: request.method,
    path,
    status: response.headersSent ? response.statusCode : undefined,
    ms: Math.round((performance.now() - startedAt) * 10) / 10,
    ...refusal,
    ...(response.writableFinished ? {} : { aborted: true }),
  });
}
