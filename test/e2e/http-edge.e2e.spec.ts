import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ServiceError } from '../../src/common/service-error.js';
import { type EndedExchange, EXCHANGE_END } from '../../src/http/exchange.js';
import { answerError } from '../../src/http/service-exception.filter.js';
import { guardHttpEdge } from '../../src/http/http-edge.js';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { exchange, open, type RawAnswer, readAnswer } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=a&filename=b.csv&manufacturer=c';
const HOST = 'Host: x\r\n';
const head = (line: string, ...headers: string[]): string => [line, 'Host: x', ...headers, '', ''].join('\r\n');
const LIVE = 'GET /health/live HTTP/1.1';
const CHUNKED_HEAD = head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', 'Transfer-Encoding: chunked');
const OK = '{"status":"success","message":"Data uploaded successfully."}';
/** Headers that no answer has. */
const NEVER = ['strict-transport-security', 'set-cookie', 'server', 'x-powered-by'];

let service: RunningService;
/** A service that waits only briefly for clients: for those that fall silent or never end. */
let impatient: RunningService;
beforeAll(async () => {
  impatient = await startService({ REQUEST_IDLE_TIMEOUT_MS: '400', REQUEST_TIMEOUT_MS: '3000' });
  // Last, because Nest logs to the application that was created last.
  service = await startService({ MAX_UPLOAD_BYTES: '100000000' });
});
afterAll(async () => {
  await service.close();
  await impatient.close();
});

function expectError(answer: RawAnswer, status: number, error: string): void {
  expect({ status: answer.status, body: answer.body }).toEqual({ status, body: JSON.stringify({ error }) });
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  expect(answer.headers['x-request-id']).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
  expect(answer.headers['x-content-type-options']).toBe('nosniff');
  expect(Object.keys(answer.headers).filter((name) => NEVER.includes(name))).toEqual([]);
}

describe('the HTTP edge', () => {
  it.each([
    ['text that is not HTTP', 'hello\r\n\r\n', 400, 'Bad request.'],
    ['an unknown method', head('GRAB / HTTP/1.1'), 400, 'Bad request.'],
    ['a malformed URL', head('GET / / HTTP/1.1'), 400, 'Bad request.'],
    ['a malformed header', `GET / HTTP/1.1\r\n${HOST}no colon\r\n\r\n`, 400, 'Bad request.'],
    ['a control character in a header', `GET / HTTP/1.1\r\n${HOST}X: a\u0001\r\n\r\n`, 400, 'Bad request.'],
    ['two lengths', head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Length: 1', 'Content-Length: 2'), 400, 'Bad request.'],
    ['a length and a coding', head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Length: 1', 'Transfer-Encoding: chunked'), 400, 'Bad request.'],
    ['a malformed length', head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Length: x'), 400, 'Bad request.'],
    ['a malformed chunk', head(`POST ${UPLOAD} HTTP/1.1`, 'Transfer-Encoding: chunked') + 'zz\r\n', 400, 'Bad request.'],
    ['HTTP/3.0', 'GET / HTTP/3.0\r\n\r\n', 400, 'Bad request.'],
    ['no Host', 'GET /health/live HTTP/1.1\r\n\r\n', 400, 'Bad request.'],
    ['two Hosts', head('GET /health/live HTTP/1.1', 'host: y'), 400, 'Bad request.'],
    ['too long headers', head('GET / HTTP/1.1', `X: ${'y'.repeat(20_000)}`), 431, 'Request header fields too large.'],
    ['much too long headers', head('GET / HTTP/1.1', `X: ${'y'.repeat(3_000_000)}`), 431, 'Request header fields too large.'],
    ['too long a URL', head(`GET /${'y'.repeat(20_000)} HTTP/1.1`), 431, 'Request header fields too large.'],
    ['CONNECT', head('CONNECT x:1 HTTP/1.1'), 404, 'Not found.'],
    ['headers that never end', `GET / HTTP/1.1\r\n${HOST}`, 408, 'Request timeout.'],
  ])('answers %s in the form of the service', async (_name, request, status, error) => {
    const answer = await exchange((status === 408 ? impatient : service).port, request);
    expectError(answer, status, error);
    expect(service.log.text).toContain(`"requestId":"${answer.headers['x-request-id'] ?? ''}"`);
  });

  it.each([
    ['a bare LF', 'GET /health/live HTTP/1.1\nHost: x\n\n'],
    ['a bare LF after a header', 'GET /health/live HTTP/1.1\r\nHost: x\nA: b\r\n\r\n'],
    ['a bare LF at the end', 'GET /health/live HTTP/1.1\r\nHost: x\r\n\n'],
    ['a bare CR', head(LIVE, 'A: b\rc')],
    ['a folded header', head(LIVE, 'A: b\r\n c')],
    ['a blank before the first header', `${LIVE}\r\n Host: x\r\n\r\n`],
    ['a blank before the colon', head(LIVE, 'A : b')],
    ['a blank in a name', head(LIVE, 'A b: c')],
    ['an empty name', head(LIVE, ': c')],
    ['a name with a parenthesis', head(LIVE, 'A(b: c')],
    ['a name that is not ASCII', head(LIVE, 'é: c')],
    ['a tab in the request line', head('GET\t/health/live HTTP/1.1')],
    ['a method in lower case', head('get /health/live HTTP/1.1')],
    ['a length with a sign', head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Length: +3') + 'abc'],
    ['a list of lengths', head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Length: 3, 3') + 'abc'],
    ['the same length twice', head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Length: 3', 'Content-Length: 3') + 'abc'],
    ['a length beyond all integers', head(`POST ${UPLOAD} HTTP/1.1`, `Content-Length: ${'9'.repeat(25)}`)],
    ['a length after the coding', head(`POST ${UPLOAD} HTTP/1.1`, 'Transfer-Encoding: chunked', 'Content-Length: 3')],
    ['a blank after a chunk size', CHUNKED_HEAD + '3 \r\nabc\r\n0\r\n\r\n'],
    ['a chunk size with 0x', CHUNKED_HEAD + '0x3\r\nabc\r\n0\r\n\r\n'],
    ['a negative chunk size', CHUNKED_HEAD + '-3\r\nabc\r\n0\r\n\r\n'],
    ['a chunk size beyond all integers', CHUNKED_HEAD + `${'f'.repeat(18)}\r\nabc`],
    ['a bare LF in chunks', CHUNKED_HEAD + '3\nabc\n0\n\n'],
    ['a chunk that is longer than its size', CHUNKED_HEAD + '3\r\nabcd\r\n0\r\n\r\n'],
    ['a line break in a chunk extension', CHUNKED_HEAD + '3;a="b\r\nc"\r\nabc\r\n0\r\n\r\n'],
    ['too long a chunk extension', CHUNKED_HEAD + `3;${'y'.repeat(20_000)}\r\nabc\r\n0\r\n\r\n`],
    ['framing in a trailer', CHUNKED_HEAD + '3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n'],
  ])('rejects %s', async (_name, request) => {
    expectError(await exchange(service.port, request), 400, 'Bad request.');
  });

  it.each([
    ['chunk extensions', '3;a=b\r\nabc\r\n0\r\n\r\n'],
    ['trailers', '3\r\nabc\r\n0\r\nHost: a b\r\nIdempotency-Key: a b\r\nContent-Digest: x\r\n\r\n'],
  ])('accepts %s, and ignores them', async (_name, body) => {
    expect((await exchange(service.port, CHUNKED_HEAD + body)).body).toBe(OK);
  });

  it.each([
    ['if it is valid', 'X-Request-Id: abc-1', /^abc-1$/],
    ['unless it is malformed', 'X-Request-Id: a b', /^[0-9a-f-]{36}$/],
    ['unless it is repeated', 'X-Request-Id: a\r\nx-request-id: b', /^[0-9a-f-]{36}$/],
  ])("answers with the client's request id %s", async (_name, header, id) => {
    const answer = await exchange(service.port, head('GET / HTTP/1.1', header, 'no colon'));
    expectError(answer, 400, 'Bad request.');
    expect(answer.headers['x-request-id']).toMatch(id);
  });

  it('answers other clients before the last of many requests that one client sent at once', async () => {
    const [many, other] = await Promise.all([open(service.port), open(service.port)]);
    const answers: string[] = [];
    let received = '';
    many.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      answers.push(...Array.from(chunk.toString('latin1').matchAll(/X-Request-Id: (\w+)/g), ([, id = '']) => id));
    });
    const otherAnswer = readAnswer(other).then(() => answers.push('other'));
    const ids = Array.from({ length: 500 }, (_, number) => `n${number}`);
    many.write(ids.map((id) => head(LIVE, `X-Request-Id: ${id}`)).join(''));
    other.write(head(LIVE));
    await otherAnswer;
    await vi.waitFor(() => { expect(received.split('HTTP/1.1 200').length - 1).toBe(ids.length); }, { timeout: 10_000 });
    expect(answers.filter((id) => id !== 'other')).toEqual(ids);
    expect(answers.indexOf('other')).toBeLessThan(ids.length);
    many.destroy();
    other.destroy();
  });

  it.each([
    ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a malformed request', 'GRAB / HTTP/1.1\r\n\r\n'],
    ['many requests', head(LIVE).repeat(2_000)],
  ])('survives a client that sends %s and resets the connection', async (_name, request) => {
    for (let attempt = 0; attempt < 5; attempt++) {
      const socket = await open(service.port);
      socket.on('error', () => undefined);
      await new Promise((written) => socket.write(request, written));
      socket.resetAndDestroy();
    }
    expect((await exchange(service.port, head(LIVE))).status).toBe(200);
  });

  it('reads no further requests while requests of the same client wait', async () => {
    const socket = await open(service.port);
    const requests = Buffer.from(head(LIVE).repeat(10_000));
    let answered = 0;
    socket.on('data', (chunk: Buffer) => (answered += chunk.toString('latin1').split('HTTP/1.1 200').length - 1));
    for (let sent = 0; sent < 100; sent++) socket.write(requests);
    await vi.waitFor(() => { expect(answered).toBeGreaterThan(100); }, { timeout: 10_000 });
    // The rest may be in buffers of the system.
    expect(socket.writableLength).toBeGreaterThan(50 * requests.length);
    socket.destroy();
    expect((await exchange(service.port, head(LIVE))).status).toBe(200);
  });

  it('answers a request that turns out to be malformed after the requests before it', async () => {
    const upload = (id: string, ...headers: string[]) => head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', `X-Request-Id: ${id}`, ...headers);
    const socket = await open(service.port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    socket.write(`${upload('first', 'Content-Length: 3')}abc${upload('second', 'Content-Length: 3')}abc${upload('third', 'Transfer-Encoding: chunked')}zz\r\n`);
    await once(socket, 'end');
    const answers = Array.from(text.matchAll(/HTTP\/1\.1 (\d+)[^]*?X-Request-Id: (\w+)/g), ([, status, id]) => [id, status]);
    expect(answers).toEqual([['first', '200'], ['second', '200'], ['third', '400']]);
  });

  it('reads a body that arrives in several chunks while the request before it is handled', async () => {
    // Longer than the chunks that the service gathers itself.
    const chunks = ['{"additional_data":"'.padEnd(2_000, 'x'), '"}'.padStart(2_000, 'x')].map((text) => `${text.length.toString(16)}\r\n${text}\r\n`);
    const first = `${head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: application/json', 'Content-Length: 2')}{}`;
    const second = `${head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: application/json', 'Transfer-Encoding: chunked', 'Connection: close')}${chunks.join('')}0\r\n\r\n`;
    const socket = await open(service.port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    socket.write(first + second);
    await once(socket, 'end');
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
  });

  it('handles no request behind one that it refuses with the end of the connection', async () => {
    const upload = head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: application/json', 'Content-Length: 2', 'X-Request-Id: second');
    const before = (await service.lines()).length;
    const ended = new Set<string>();
    const server: Server = service.app.getHttpServer();
    const noteEnd = ({ requestId }: EndedExchange) => ended.add(requestId);
    server.on(EXCHANGE_END, noteEnd);
    const socket = await open(service.port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    socket.write(`GET /health/live HTTP/1.1\r\nHost: a b\r\nX-Request-Id: first\r\n\r\n${upload}{}${head(LIVE, 'X-Request-Id: third')}`);
    await once(socket, 'end');
    await vi.waitFor(() => { expect([...ended]).toEqual(expect.arrayContaining(['first', 'second', 'third'])); });
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400']);
    expect(await service.lines()).toHaveLength(before);
    server.off(EXCHANGE_END, noteEnd);
  });

  it('does not change an answer that was sent before the body turned out to be malformed', async () => {
    const request = head(`POST /nothing HTTP/1.1`, 'Transfer-Encoding: chunked') + 'zz\r\n';
    expectError(await exchange(service.port, request), 404, 'Not found.');
  });

  it('sends none of the headers of an answer that it replaces', async () => {
    const names = ['content-encoding', 'content-disposition', 'content-range', 'cache-control', 'etag', 'repr-digest', 'accept-ranges'];
    const server = createServer((request, response) => {
      for (const name of names) response.setHeader(name, 'x');
      answerError(request, response, new ServiceError('internal'));
    });
    guardHttpEdge(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const answer = await exchange((server.address() as AddressInfo).port, head('GET / HTTP/1.1'));
    expectError(answer, 500, 'Internal server error.');
    expect(Object.keys(answer.headers).filter((name) => names.includes(name))).toEqual([]);
    server.close();
  });

  it.each([
    ['no error when the client is at fault', 'bad-request', false, 0],
    ['an error when the service is at fault', 'internal', false, 1],
    ['an error when an answer that has begun is broken off', 'bad-request', true, 1],
  ] as const)('logs %s', async (reason, kind, hasBegun, count) => {
    const server = createServer((request, response) => {
      if (hasBegun) response.writeHead(200).write('the beginning');
      answerError(request, response, new ServiceError(kind, reason));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const answered = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`).then((answer) => answer.text());
    expect(await answered.then(() => 'whole', () => 'broken off')).toBe(hasBegun ? 'broken off' : 'whole');
    expect(service.log.entries.filter(({ level, text }) => level === 'error' && text.includes(reason))).toHaveLength(count);
    server.close();
  });

  it('ends the connection without a second answer when an answer is being sent before the request is complete', async () => {
    const server = createServer((_request, response) => response.writeHead(200).write('the beginning'));
    guardHttpEdge(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const socket = await open((server.address() as AddressInfo).port);
    let text = '';
    const ended = new Promise((resolve) => socket.once('end', resolve));
    socket.on('data', (chunk: Buffer) => {
      if (text === '') socket.write('garbage\r\n\r\n');
      text += chunk.toString('latin1');
    });
    socket.on('error', () => undefined);
    socket.write(head('POST / HTTP/1.1', 'Transfer-Encoding: chunked'));
    await ended;
    expect(text).toMatch(/^HTTP\/1\.1 200 OK[^]*the beginning\r\n$/);
    server.close();
  });

  it.each([
    ['garbage', 'garbage\r\n\r\n', '400 Bad request'],
    ['CONNECT', head('CONNECT x:1 HTTP/1.1'), '404 Not found'],
  ])('first answers the request before %s in the same packet', async (_name, second, answer) => {
    const before = (await service.lines()).length;
    const socket = await open(service.port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    const ended = once(socket, 'end');
    const body = '{"additional_data":"first"}';
    socket.write(head(`POST ${UPLOAD} HTTP/1.1`, 'X-Request-Id: first', 'Content-Type: application/json', `Content-Length: ${String(body.length)}`) + body + second);
    await ended;
    const answers = text.split(/(?=HTTP\/1\.1 )/);
    expect(answers).toHaveLength(2);
    expect(answers[0]).toMatch(/^HTTP\/1\.1 200 OK[^]*X-Request-Id: first/);
    expect(answers[1]).toMatch(new RegExp(`^HTTP/1.1 ${answer}`));
    expect(answers[1]).not.toContain('X-Request-Id: first');
    expect(await service.lines()).toHaveLength(before + 1);
    socket.destroy();
  });

  it('answers a client that closes its side after a complete request', async () => {
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    socket.end(head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', 'Content-Length: 3') + 'abc');
    expect((await answer).body).toBe(OK);
    socket.destroy();
  });

  it('reads the body after any number of headers', async () => {
    const body = '{"additional_data":5}';
    const many = Array.from({ length: 2_100 }, () => 'a:b');
    const request = head(`POST ${UPLOAD} HTTP/1.1`, ...many, 'Content-Type: application/json', `Content-Length: ${String(body.length)}`) + body;
    expectError(await exchange(service.port, request), 400, 'Invalid request body.');
  });

  it.each([
    ['Range: bytes=99999999-', 'a range that does not exist'],
    ['If-Match: "x"', 'a condition that does not hold'],
  ])('answers %s on a static file as the client’s mistake', async (header) => {
    expectError(await exchange(service.port, head('GET /docs/swagger-ui.css HTTP/1.1', header)), 400, 'Bad request.');
  });
});

it('the log contains the requested path, even of a file of Swagger UI', async () => {
  const { headers } = await fetch(`${service.url}/docs/swagger-ui.css?v=1`, { headers: { 'X-Request-Id': 'a-file' } });
  expect(headers.get('content-type')).toContain('text/css');
  await vi.waitFor(() => { expect(service.log.text).toMatch(/"requestId":"a-file","method":"GET","path":"\/docs\/swagger-ui\.css"/); });
});

describe('the HTTP edge, where the RFCs are stricter than the parser,', () => {
  /**
   * The UTF-8 bytes of a text, as a text with one character for each byte. `expectRefusal` sends each such character as
   * one byte.
   */
  const utf8 = (text: string): string => Buffer.from(text).toString('latin1');
  const requestTo = (target: string): string => head(`GET ${target} HTTP/1.1`);
  const withHost = (host: string, version = '1.1'): string => `GET /health/live HTTP/${version}\r\nHost: ${host}\r\n\r\n`;
  const coded = (...codings: string[]): string => {
    const lines = codings.map((coding) => `Transfer-Encoding: ${coding}`);
    return `${head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', ...lines)}3\r\nabc\r\n0\r\n\r\n`;
  };

  async function expectRefusal(request: string): Promise<void> {
    const before = (await service.lines()).length;
    const answer = await exchange(service.port, Buffer.from(request, 'latin1'));
    expectError(answer, 400, 'Bad request.');
    expect(answer.headers.connection).toBe('close');
    expect(await service.lines()).toHaveLength(before);
  }

  it.each([
    '', ' ', ':80', 'a b', 'a\tb', 'a,b', 'a, b', 'u@x', 'u:p@x', 'x/', '/', 'x?a', 'x#a', 'x\\y', 'http://x', 'a"b', 'a<b>', 'a|b', 'a%', 'a%zz',
    'x:a', 'x:-1', 'x:+1', 'x:1:2', 'x: 1', 'x:65536', 'x:99999999999999999999', '::1', '[::1', '[::1]x', '[::1]:x', '[::1]:65536', '[]', '[x]', '[1]',
    '[:::]', '[127.0.0.1]', '[fe80::1%25eth0]', utf8('é'), '\xe9', 'a\xa0b',
  ])('rejects Host: %j', async (host) => {
    await expectRefusal(withHost(host));
  });

  it.each(['a b', ''])('rejects Host: %j in HTTP/1.0', async (host) => {
    await expectRefusal(withHost(host, '1.0'));
  });

  it.each([
    'x', 'X.Example', 'x.', 'a_b', 'a-b.c', 'xn--e1afmkfd.example', 'a%41', "!$&'()*+;=", '127.0.0.1', '127.0.0.1:3000', 'x:', 'x:0', 'x:080', 'x:65535',
    '[::1]', '[::1]:3000', '[2001:DB8::7]', '[::ffff:127.0.0.1]', '[v1.a:b]',
  ])('accepts Host: %s', async (host) => {
    expect((await exchange(service.port, withHost(host))).status).toBe(200);
  });

  it('accepts HTTP/1.0 without Host', async () => {
    expect((await exchange(service.port, 'GET /health/live HTTP/1.0\r\n\r\n')).status).toBe(200);
  });

  it.each([
    ['HTTP/0.9', head('GET /health/live HTTP/0.9')],
    ['HTTP/2.0', head('GET /health/live HTTP/2.0')],
    ['no version', 'GET /health/live\r\n\r\n'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ])('rejects %s', async (_name, request) => {
    await expectRefusal(request);
  });

  it.each([
    '/health/live#', '/health/live#a', '/health/live?a#b', '/#/health/live', 'http://x/health/live#a', '**', '*/health/live', 'http:///health/live',
    'http://u@x/health/live', 'http://u:p@x/health/live', 'http://x:65536/health/live', 'http://a,b/health/live', 'ftp://x/health/live', 'foo://x/health/live',
    'x:80', 'x', '?a', 'health/live', 'http:/health/live', '\\health/live', '/health/live?a b',
  ])('rejects the target %s', async (target) => {
    await expectRefusal(requestTo(target));
  });

  it.each(['http://y:7/health/live?a', 'HTTP://X/health/live', 'https://[::1]/health/live', '/health/live?', '/health/live?"<>^`{|}\\[]?/:@'])(
    'accepts the target %s',
    async (target) => {
      expect((await exchange(service.port, requestTo(target))).status).toBe(200);
    },
  );

  it.each([
    ['a path', '/health/live', 'x', 404],
    ['an invalid Host', 'x:1', 'a b', 400],
    ['a valid Host', 'x:1', 'x:1', 404],
  ])('answers CONNECT with %s', async (_name, target, host, status) => {
    const answer = await exchange(service.port, `CONNECT ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    expectError(answer, status, status === 404 ? 'Not found.' : 'Bad request.');
  });

  it.each([
    [['gzip, chunked']], [['GZIP,Chunked']], [['gzip', 'chunked']], [['identity, chunked']], [['identity']], [['chunked, chunked']], [['chunked', 'chunked']],
    [['chunked, gzip']], [['chunked', 'identity']], [['x, chunked']], [[',chunked']], [['chunked,']], [['chunked;a=b']], [['"chunked"']], [['']], [['', 'chunked']],
  ])('rejects the transfer codings %j', async (codings) => {
    await expectRefusal(coded(...codings));
  });

  it.each([
    ['of gzip', 'Content-Length: 3\r\nTransfer-Encoding: gzip, chunked'],
    ['that is empty', 'Content-Length: 3\r\nTransfer-Encoding:'],
    ['that is empty and comes first', 'Transfer-Encoding:\r\nContent-Length: 3'],
  ])('rejects a length with a transfer coding %s', async (_name, headers) => {
    await expectRefusal(`${head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', headers)}3\r\nabc\r\n0\r\n\r\n`);
  });

  it('rejects a transfer coding in HTTP/1.0', async () => {
    await expectRefusal(coded('chunked').replace('HTTP/1.1', 'HTTP/1.0'));
  });

  it('rejects a transfer coding of a request for which no body is read', async () => {
    await expectRefusal(head(LIVE, 'Transfer-Encoding: gzip, chunked') + '0\r\n\r\n');
  });

  it('accepts chunked in another letter case', async () => {
    expect((await exchange(service.port, coded('CHUNKED'))).body).toBe(OK);
  });

  it('logs neither the host, the user nor the fragment of a target', async () => {
    await exchange(service.port, head('GET ftp://MARK:MARK@MARK/there?MARK HTTP/1.1', 'X-Request-Id: ftp'));
    await exchange(service.port, head('GET /there#MARK HTTP/1.1', 'X-Request-Id: hash'));
    for (const id of ['ftp', 'hash']) {
      await vi.waitFor(() => { expect(service.log.text).toMatch(new RegExp(`"requestId":"${id}","method":"GET","path":"/there"`)); });
    }
    expect(service.log.text).not.toContain('MARK');
  });
});

describe('unknown paths and methods', () => {
  it.each([
    ['GET', '/'],
    ['GET', '/nothing'],
    ['GET', '//health/live'],
    ['GET', '/health/live/'],
    ['GET', '/Health/live'],
    ['GET', '/health%2Flive'],
    ['GET', '/%'],
    ['GET', '/%E0%A4%A'],
    ['GET', '/docs/%E0%A4%A'],
    ['GET', '/docs/nothing.js'],
    ['GET', '/docs/..%2f..%2fpackage.json'],
    ['GET', '/docs/../package.json'],
    ['GET', '/idp/nothing'],
    ['GET', '/idp/token'],
    ['GET', UPLOAD],
    ['PUT', UPLOAD],
    ['OPTIONS', UPLOAD],
    ['OPTIONS', '*'],
    ['GET', '*'],
    ['TRACE', '/health/live'],
    ['POST', '/health/live'],
    ['DELETE', '/idpManagementBackend/users'],
    ['POST', '/docs'],
    ['PATCH', '/metrics'],
    ['POST', UPLOAD.toLowerCase()],
    ['POST', UPLOAD.replace('?', '/?')],
  ])('are answered with 404: %s %s', async (method, target) => {
    expectError(await exchange(service.port, head(`${method} ${target} HTTP/1.1`)), 404, 'Not found.');
  });

  it('do not include a URL in absolute form', async () => {
    expect((await exchange(service.port, head('GET http://x/health/live HTTP/1.1'))).status).toBe(200);
  });
});

describe('headers for browsers', () => {
  it('let pages load nothing from other sites and be framed by none, and leave TLS to the proxy', async () => {
    const { headers } = await fetch(`${service.url}/docs`);
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none';script-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:;font-src 'self';" +
        "connect-src 'self';form-action 'self';frame-ancestors 'none';base-uri 'none'",
    );
    expect(Object.fromEntries(headers)).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'x-frame-options': 'SAMEORIGIN',
    });
    expect([...headers.keys()].filter((name) => NEVER.includes(name))).toEqual([]);
  });

  it.each([
    ['/docs/swagger-ui-bundle.js', 'public, max-age=0'],
    ['/docs/pages/docs/security.md', 'public, max-age=0'],
    ['/health/live', null],
  ])('let nobody guess the type of %s, and have Cache-Control: %s', async (path, caching) => {
    const { status, headers } = await fetch(service.url + path);
    expect([status, headers.get('x-content-type-options'), headers.get('cache-control')]).toEqual([200, 'nosniff', caching]);
    expect([...headers.keys()].filter((name) => NEVER.includes(name))).toEqual([]);
  });
});

describe('request ids', () => {
  it.each(['a', 'A-b_c.9', 'x'.repeat(128)])('are kept if valid: %s', async (id) => {
    const answer = await fetch(`${service.url}/health/live`, { headers: { 'X-Request-Id': id } });
    expect(answer.headers.get('x-request-id')).toBe(id);
    expect(service.log.text).toContain(`"requestId":"${id}"`);
  });

  it.each(['', 'x'.repeat(129), 'a b', 'a/b', 'é', 'a,b'])('are replaced if malformed: %j', async (id) => {
    const answer = await fetch(`${service.url}/nothing`, { headers: { 'X-Request-Id': id } });
    expect(answer.headers.get('x-request-id')).not.toBe(id);
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('are replaced if repeated', async () => {
    const answer = await exchange(service.port, head('GET /nothing HTTP/1.1', 'X-Request-Id: a', 'X-Request-Id: b'));
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('Expect: 100-continue', () => {
  const expecting = (length: number): string =>
    head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', `Content-Length: ${String(length)}`, 'Expect: 100-continue');

  it('requests a body that it will read', async () => {
    const socket = await open(service.port);
    socket.write(expecting(3));
    const [interim] = (await once(socket, 'data')) as [Buffer];
    expect(interim.toString()).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    const answer = readAnswer(socket);
    socket.write('abc');
    expect((await answer).body).toBe(OK);
    socket.destroy();
  });

  it('keeps the connection open when a JSON body comes at once', async () => {
    const request = head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: application/json', 'Content-Length: 2', 'Expect: 100-continue');
    const socket = await open(service.port);
    let received = '';
    socket.setEncoding('latin1').on('data', (text: string) => (received += text));
    for (const count of [1, 2]) {
      socket.write(`${request}{}`);
      await expect.poll(() => received.split(OK).length - 1).toBe(count);
    }
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 100', 'HTTP/1.1 200', 'HTTP/1.1 100', 'HTTP/1.1 200']);
    socket.destroy();
  });

  it.each([
    ['too long a body', expecting(100_000_001), 413],
    ['an unsupported type', expecting(3).replace('text/csv', 'application/x-www-form-urlencoded'), 415],
    ['an invalid query', expecting(3).replace('customer_id', 'customer'), 400],
    ['an unknown path', expecting(3).replace('upload_historical', 'nothing'), 404],
  ])('rejects %s at once', async (_name, request, status) => {
    const socket = await open(service.port);
    socket.write(request);
    const [first] = (await once(socket, 'data')) as [Buffer];
    expect(first.toString()).toMatch(new RegExp(`^HTTP/1.1 ${String(status)} [^]*\r\nConnection: close\r\n`));
    socket.destroy();
  });

  it('ignores an unknown expectation', async () => {
    expect((await exchange(service.port, head('GET /health/live HTTP/1.1', 'Expect: wonders'))).status).toBe(200);
  });
});

describe('early answers', () => {
  const refused = (...headers: string[]): string =>
    head(`POST ${UPLOAD.replace('customer_id', 'x')} HTTP/1.1`, 'Content-Type: text/csv', ...headers);

  it.each([
    ['with a connection that stays open', []],
    ['with a connection that is closed', ['Connection: close']],
  ])('let the client finish sending and read the answer, %s', async (_name, headers) => {
    const size = 20_000_000;
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    socket.write(refused(`Content-Length: ${String(size)}`, ...headers));
    const chunk = Buffer.alloc(1_000_000);
    for (let sent = 0; sent < size; sent += chunk.length) {
      if (!socket.write(chunk)) await once(socket, 'drain');
    }
    expectError(await answer, 400, 'Invalid or missing query parameter.');
    if (headers.length === 0) {
      const next = readAnswer(socket);
      socket.write(head('GET /health/live HTTP/1.1'));
      expect((await next).status).toBe(200);
    }
    socket.destroy();
  });

  it.each(
    ['GET /health/live', 'HEAD /health/live', 'GET /metrics', 'GET /docs-json', 'GET /docs/swagger-ui.css', 'GET /idpManagementBackend/roles', 'GET /nothing', 'POST /nothing'].flatMap((request) => [[request, 'keep-alive'], [request, 'close']] as const),
  )('let a client that sends 20 MB with %s (Connection: %s) finish sending and read the answer', async (request, connection) => {
    const size = 20_000_000;
    const socket = await open(service.port);
    const answer = request.startsWith('HEAD') ? once(socket, 'data').then(([text]) => ({ status: Number(/^HTTP\/1\.1 (\d+) /.exec(String(text))?.[1]) })) : readAnswer(socket);
    socket.write(head(`${request} HTTP/1.1`, `Authorization: Bearer ${await service.adminToken()}`, `Content-Length: ${String(size)}`, `Connection: ${connection}`));
    const chunk = Buffer.alloc(1_000_000);
    for (let sent = 0; sent < size; sent += chunk.length) {
      if (!socket.write(chunk)) await once(socket, 'drain');
    }
    expect((await answer).status).toBe(request.endsWith('/nothing') ? 404 : 200);
    if (connection === 'keep-alive') {
      let rest = '';
      const next = new Promise<void>((resolve) => socket.on('data', (text: Buffer) => {
        rest += text.toString('latin1');
        if (rest.endsWith('{"error":"Not found."}')) resolve();
      }));
      socket.write(head('GET /nothing HTTP/1.1'));
      await next;
    }
    socket.destroy();
  });

  it('let a client that sends 20 MB with GET, and expects to be told to go on, finish sending and read the answer', async () => {
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    socket.write(head(LIVE, 'Content-Length: 20000000', 'Expect: 100-continue'));
    for (let sent = 0; sent < 20; sent++) if (!socket.write(Buffer.alloc(1_000_000))) await once(socket, 'drain');
    expect((await answer).status).toBe(200);
    socket.destroy();
  });

  it('have no body if the request is a HEAD that turns out to be malformed', async () => {
    const socket = await open(service.port);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.write(`${head('HEAD /uploads HTTP/1.1', `Authorization: Bearer ${await service.adminToken()}`, 'Transfer-Encoding: chunked')}zz\r\n`);
    await once(socket, 'end');
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 400 [^]*\r\nContent-Length: 24\r\n[^]*\r\n\r\n$/);
    socket.destroy();
  });

  it.each([
    ['too long headers', head('GET / HTTP/1.1', `X: ${'y'.repeat(20_000)}`), 431, 'Request header fields too large.'],
    ['a malformed header', `GET / HTTP/1.1\r\n${HOST}no colon\r\n\r\n`, 400, 'Bad request.'],
    ['a malformed chunk', CHUNKED_HEAD + 'zz\r\n', 400, 'Bad request.'],
    ['a malformed chunk after an early answer', `${head('POST /nothing HTTP/1.1', 'Transfer-Encoding: chunked', 'Connection: close')}zz\r\n`, 404, 'Not found.'],
    ['CONNECT', head('CONNECT x:1 HTTP/1.1'), 404, 'Not found.'],
  ])('let a client that sends %s finish sending and read the answer', async (_name, request, status, error) => {
    const socket = await open(service.port);
    socket.write(request);
    const garbage = Buffer.alloc(1_000_000, 'x');
    for (let sent = 0; sent < 20; sent++) {
      if (!socket.write(garbage)) await once(socket, 'drain');
    }
    expectError(await readAnswer(socket), status, error);
    socket.destroy();
  });

  it('answer and log a malformed request once, although more follows while the request before it is still answered', async () => {
    const responses: ServerResponse[] = [];
    const server = createServer((_request, response) => { responses.push(response); });
    guardHttpEdge(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const refusals = () => service.log.entries.filter((entry) => entry.text.includes('refused by the HTTP parser')).length;
    const before = refusals();
    const socket = await open((server.address() as AddressInfo).port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    const ended = once(socket, 'end');
    socket.write(head('GET / HTTP/1.1'));
    await vi.waitFor(() => { expect(responses).toHaveLength(1); });
    for (let packet = 0; packet < 5; packet++) {
      const refusal = once(server, 'clientError');
      socket.write('garbage\r\n\r\n');
      await refusal;
    }
    responses[0]?.end('late');
    await ended;
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400']);
    expect(refusals()).toBe(before + 1);
    socket.destroy();
    server.close();
  });

  it.each([
    ['whose request was answered early', refused('Transfer-Encoding: chunked')],
    ['whose request needs no body', head(LIVE, 'Transfer-Encoding: chunked')],
    ['whose request is malformed', 'GRAB / HTTP/1.1\r\n\r\n'],
  ])('end the connection of a client %s, and that never stops sending', async (_name, request) => {
    const socket = await open(impatient.port);
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    socket.write(request);
    const chunk = Buffer.from(`100000\r\n${'x'.repeat(0x100000)}\r\n`);
    let sent = 0;
    const send = (): void => {
      while (!socket.destroyed && sent < 200_000_000 && socket.write(chunk)) sent += chunk.length;
    };
    socket.on('drain', send);
    send();
    await closed;
    expect(sent).toBeLessThan(200_000_000);
  });

  it('end the connection of a client that sends no more of a body that its answer did not depend on', async () => {
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    const hasEnded = vi.fn();
    socket.once('end', hasEnded);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      socket.write(`${head('GET /health/live HTTP/1.1', 'Content-Length: 10')}begin`);
      expect((await answer).status).toBe(200);
      while (hasEnded.mock.calls.length === 0) await vi.advanceTimersByTimeAsync(1_000);
    } finally {
      vi.useRealTimers();
      socket.destroy();
    }
  });
});

describe('the service and interrupted uploads:', () => {
  /**
   * The content of a file that is longer than the service keeps in memory, so that the service creates a file in
   * staging/.
   */
  const STAGED = 'x'.repeat(70_000);
  const begin = (...headers: string[]): string => head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', ...headers);

  async function untilStagingIs(count: number, at = service): Promise<void> {
    await expect.poll(async () => (await at.files('staging')).length, { interval: 5, timeout: 5_000 }).toBe(count);
  }

  it.each([
    ['disconnects in a file', begin('Content-Length: 100000'), STAGED],
    ['disconnects in a chunked file', begin('Transfer-Encoding: chunked'), `${STAGED.length.toString(16)}\r\n${STAGED}\r\n`],
    [
      'disconnects in a form',
      begin('Content-Length: 100000').replace('text/csv', 'multipart/form-data; boundary=b'),
      `--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n${STAGED}`,
    ],
  ])('stores nothing of a client that %s', async (_name, request, body) => {
    const lines = (await service.lines()).length;
    const socket = await open(service.port);
    socket.write(request + body);
    await untilStagingIs(1);
    socket.destroy();
    await untilStagingIs(0);
    expect(await service.lines()).toHaveLength(lines);
    expect((await exchange(service.port, begin('Content-Length: 3') + 'abc')).body).toBe(OK);
  });

  it('answers a client that sends too little and closes its side', async () => {
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    socket.end(begin('Content-Length: 100') + 'abc');
    expectError(await answer, 400, 'Bad request.');
    await untilStagingIs(0);
  });

  it.each([
    ['stops sending', begin('Content-Length: 100') + 'abc'],
    ['never begins', begin('Content-Length: 100')],
    ['stops in JSON', begin('Content-Length: 100').replace('text/csv', 'application/json') + '{'],
  ])('answers a client that %s, and ends the connection', async (_name, request) => {
    const answer = await exchange(impatient.port, request);
    expectError(answer, 408, 'Request timeout.');
    expect(answer.headers.connection).toBe('close');
    await untilStagingIs(0, impatient);
  });

  it('accepts bytes that arrive slowly but steadily', async () => {
    // Much longer than the pauses, so that the test does not fail on a busy machine.
    const idleTimeoutMs = 1_000;
    const own = await startService({ REQUEST_IDLE_TIMEOUT_MS: String(idleTimeoutMs) });
    const socket = await open(own.port);
    const answer = readAnswer(socket);
    const bytes = Array.from({ length: 12 }, () => 'a');
    socket.write(begin(`Content-Length: ${bytes.length}`));
    for (const byte of bytes) {
      socket.write(byte);
      await new Promise((resolve) => setTimeout(resolve, idleTimeoutMs / 10));
    }
    expect((await answer).body).toBe(OK);
    socket.destroy();
    await own.close();
  });
});

describe('under BASE_PATH, with CORS', () => {
  let based: RunningService;
  beforeAll(async () => {
    based = await startService(
      { BASE_PATH: '/load/v1', CORS_ORIGINS: 'https://app.example.com, https://b.example.com' },
      (builder) => builder.overrideProvider(FileStorage).useClass(InMemoryFileStorage),
    );
  });
  afterAll(() => based.close());

  it.each([
    ['/load/v1/health/live', 200],
    ['/load/v1/health/ready', 200],
    ['/load/v1/metrics', 200],
    ['/load/v1/docs', 200],
    ['/load/v1/docs-json', 200],
    ['/load/v1/idp/.well-known/openid-configuration', 200],
    ['/load/v1/idpManagementBackend/users', 403],
    ['/load/v1', 404],
    ['/load/v1/nothing', 404],
    ['/health/live', 404],
    ['/docs', 404],
    ['/', 404],
    ['/load/v10/health/live', 404],
  ])('answers GET %s with %i', async (path, status) => {
    const answer = await fetch(`http://127.0.0.1:${String(based.port)}${path}`);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('x-request-id')).toBeTruthy();
    if (status === 404) expect(await answer.json()).toEqual({ error: 'Not found.' });
  });

  it('serves the operations', async () => {
    const answer = await fetch(based.url + UPLOAD, { method: 'POST', headers: { Origin: 'https://app.example.com' } });
    expect(await answer.text()).toBe(OK);
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
    expect(answer.headers.get('access-control-expose-headers')).toContain('X-Upload-Id');
  });

  it('allows only the named origins', async () => {
    const preflight = (origin: string): Promise<Response> =>
      fetch(based.url + UPLOAD, {
        method: 'OPTIONS',
        headers: { Origin: origin, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization' },
      });
    expect((await preflight('https://b.example.com')).headers.get('access-control-allow-origin')).toBe('https://b.example.com');
    expect((await preflight('https://evil.example.com')).headers.get('access-control-allow-origin')).toBeNull();
  });
});

describe('metrics and HEAD', () => {
  it('count a request that expects 100-continue', async () => {
    const count = async (): Promise<string | undefined> =>
      /upload_historical",status="415"\} (\d+)/.exec(await (await fetch(`${service.url}/metrics`)).text())?.[1];
    const before = Number((await count()) ?? 0);
    await exchange(service.port, head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: application/x-www-form-urlencoded', 'Expect: 100-continue', 'Content-Length: 1'));
    await expect.poll(count, { interval: 5 }).toBe(String(before + 1));
  });

  it('count requests, uploads, bytes, flushes and provider calls', async () => {
    await exchange(service.port, head(`POST ${UPLOAD} HTTP/1.1`, 'Content-Type: text/csv', 'Content-Length: 3') + 'abc');
    const token = await service.adminToken();
    await fetch(`${service.url}/idpManagementBackend/roles`, { headers: { Authorization: `Bearer ${token}` } });
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    for (const line of [
      /^http_requests_total\{method="POST",route="\/ingestHistoricalLoadData\/upload_historical",status="200"\} [1-9]/m,
      /^http_requests_total\{method="GET",route="unmatched",status="404"\} [1-9]/m,
      // Not requested before.
      /^http_requests_total\{method="POST",route="\/idpManagementBackend\/assign-role",status="502"\} 0$/m,
      /^http_requests_total\{method="DELETE",route="\/uploads\/:upload_id",status="500"\} 0$/m,
      /^http_requests_total\{method="HEAD",route="\/uploads\/:upload_id\/content",status="503"\} 0$/m,
      /^load_data_uploads_total\{kind="historical"\} [1-9]/m,
      /^load_data_uploads_total\{kind="nowcast"\} \d/m,
      /^load_data_upload_failures_total\{kind="historical",reason="storage-failure"\} 0$/m,
      /^load_data_upload_failures_total\{kind="nowcast",reason="internal"\} 0$/m,
      /^load_data_upload_bytes_total\{kind="historical"\} [1-9]/m,
      /^load_data_flushes_total\{outcome="ok"\} [1-9]/m,
      /^identity_provider_calls_total\{operation="listRoles",outcome="ok"\} [1-9]/m,
      /^identity_provider_calls_total\{operation="listRoles",outcome="failed"\} 0$/m,
      /^load_data_ready 1$/m,
      /^load_data_dependency_state\{dependency="file_storage",state="up"\} 1$/m,
      /^load_data_dependency_state\{dependency="identity_provider",state="down"\} 0$/m,
      /^load_data_disk_free_bytes\{directory="DATA_DIR"\} [1-9]/m,
      /^load_data_disk_size_bytes\{directory="DATA_DIR"\} [1-9]/m,
      /^load_data_clock_shift_seconds -?[\d.e-]+$/m,
      /^load_data_queue_length\{queue="body_memory"\} 0$/m,
      /^load_data_queue_length\{queue="decoding"\} 0$/m,
      /^load_data_queue_length\{queue="index"\} 0$/m,
      /^load_data_uploads_in_progress \d+$/m,
      /^identity_provider_calls_in_progress [01]$/m,
      /^load_data_bucket_retries_total 0$/m,
    ]) {
      expect(metrics).toMatch(line);
    }
  });

  it('HEAD is answered wherever GET is', async () => {
    for (const path of ['/health/live', '/health/ready', '/metrics', '/docs-json', '/idp/jwks']) {
      const answer = await fetch(service.url + path, { method: 'HEAD' });
      expect([path, answer.status, await answer.text()]).toEqual([path, 200, '']);
    }
  });
});
