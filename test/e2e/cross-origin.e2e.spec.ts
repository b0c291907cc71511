import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { exchange, type RawAnswer } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=a&filename=b.csv&manufacturer=c';
const NOWCAST = UPLOAD.replaceAll('Historical', 'Nowcast').replaceAll('historical', 'nowcast');
const IDENTITY = '/idpManagementBackend';
const FOREIGN = 'Origin: https://evil.example';
const REFUSED = { status: 403, body: '{"error":"Unauthorized."}' };
const storage = new InMemoryFileStorage();
/** The headers of an answer that a page of an allowed origin may read without further ado (Fetch, CORS). */
const SAFELISTED = ['cache-control', 'content-language', 'content-length', 'content-type', 'expires', 'last-modified', 'pragma'];
/** Headers of an answer that are meant for the browser or the connection, not for the page. */
const NOT_FOR_PAGES = ['connection', 'date', 'keep-alive', 'vary', 'access-control-allow-origin', 'access-control-expose-headers', 'x-content-type-options', 'content-security-policy'];

const start = (variables: Record<string, string>): Promise<RunningService> =>
  startService(variables, (builder) => builder.overrideProvider(FileStorage).useValue(storage));

const send = (service: RunningService, line: string, ...headers: string[]): Promise<RawAnswer> =>
  exchange(service.port, [`${line} HTTP/1.1`, ...headers, '', ''].join('\r\n'));

/**
 * Uploads three bytes with these headers, by default to the host `load.example`. Resolves to the answer's status and
 * body.
 */
async function upload(service: RunningService, ...headers: string[]): Promise<Pick<RawAnswer, 'status' | 'body'>> {
  const hosts = headers.some((header) => /^Host:/m.test(header)) ? [] : ['Host: load.example'];
  const { status, body } = await exchange(
    service.port,
    [`POST ${UPLOAD} HTTP/1.1`, ...hosts, 'Content-Type: text/plain', 'Content-Length: 3', ...headers, '', 'abc'].join('\r\n'),
  );
  return { status, body };
}

describe('without CORS_ORIGINS and PUBLIC_URL', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await start({ TRUST_PROXY: '1' });
  });
  afterAll(() => service.close());

  it('stores nothing that a page of another origin sends', async () => {
    const before = storage.uploads.length;
    expect(await upload(service, FOREIGN)).toEqual(REFUSED);
    const form = ['--b', 'Content-Disposition: form-data; name="file"; filename="a"', '', 'abc', '--b--', ''].join('\r\n');
    const sent = await send(service, `POST ${UPLOAD}`, 'Host: load.example', FOREIGN, 'Content-Type: multipart/form-data; boundary=b', `Content-Length: ${form.length}`, '', form);
    expect(sent).toMatchObject(REFUSED);
    expect(storage.uploads).toHaveLength(before);
  });

  it.each([
    ['POST', UPLOAD],
    ['POST', NOWCAST],
    ['POST', `${IDENTITY}/assign-role`],
    ['POST', `${IDENTITY}/create-role`],
    ['POST', `${IDENTITY}/create-user`],
    ['POST', `${IDENTITY}/update-user`],
    ['GET', `${IDENTITY}/roles`],
    ['GET', `${IDENTITY}/users`],
  ])('refuses %s %s, whatever the token', async (method, path) => {
    const token = `Authorization: Bearer ${await service.adminToken()}`;
    const answer = await send(service, `${method} ${path}`, 'Host: x', 'Connection: close', FOREIGN, token);
    expect(answer.status).toBe(403);
    expect(answer.headers['x-request-id']).toBeTruthy();
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
    const own = await send(service, `${method} ${path}`, 'Host: x', 'Connection: close', 'Origin: http://x', token, 'Content-Length: 0');
    expect(own.status).not.toBe(403);
  });

  it('refuses HEAD like GET', async () => {
    const headers = { Authorization: `Bearer ${await service.adminToken()}`, Origin: 'https://evil.example' };
    expect((await fetch(`${service.url}${IDENTITY}/users`, { method: 'HEAD', headers })).status).toBe(403);
  });

  it.each([
    ['of a document without an origin', 'Origin: null'],
    ['that is empty', 'Origin:'],
    ['of another name', 'Origin: https://evil.load.example'],
    ['of a name with the same beginning', 'Origin: https://load.example.evil'],
    ['of another port', 'Origin: https://load.example:8443'],
    ['of the port of another scheme', 'Origin: http://load.example:443'],
    ['of another kind of scheme', 'Origin: ftp://load.example'],
    ['of a browser extension with the same name', 'Origin: chrome-extension://load.example'],
    ['with a path', 'Origin: https://load.example/'],
    ['with a user', 'Origin: https://x@load.example'],
    ['without a scheme', 'Origin: load.example'],
    ['that is a list', 'Origin: https://load.example https://evil.example'],
    ['that is repeated', 'Origin: https://load.example\r\nOrigin: https://evil.example'],
    ['that is repeated in the other order', 'Origin: https://evil.example\r\norigin: https://load.example'],
    ['that matches only a forwarded Host', `${FOREIGN}\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https`],
    ['that claims to be the same origin', `${FOREIGN}\r\nSec-Fetch-Site: same-origin`],
  ])('refuses an Origin %s', async (_which, headers) => {
    expect(await upload(service, headers)).toEqual(REFUSED);
  });

  it.each([
    ['no Origin', 'Sec-Fetch-Site: none'],
    ["the Host's origin", 'Origin: http://load.example'],
    ["the Host's origin behind a proxy that terminates TLS", 'Origin: https://load.example'],
    ["the Host's origin in another letter case", 'Origin: HTTPS://Load.Example\r\nHost: LOAD.example'],
    ["the Host's origin with the default port", 'Origin: https://load.example\r\nHost: load.example:443'],
    ["the Host's origin with its port", 'Origin: http://load.example:8080\r\nHost: load.example:8080'],
    ["the Host's origin with an IPv6 address", 'Origin: http://[::1]:80\r\nHost: [0:0::1]'],
  ])('accepts %s', async (_which, headers) => {
    expect(await upload(service, headers)).toMatchObject({ status: 200 });
  });

  it('accepts the origin of its own URL, whatever the Host', async () => {
    expect(await upload(service, `Origin: ${service.url}`)).toMatchObject({ status: 200 });
  });

  it('compares with the host of a target in absolute form, which replaces Host', async () => {
    const to = (origin: string) => send(service, `POST http://load.example${UPLOAD}`, 'Host: other.example', `Origin: ${origin}`, 'Content-Length: 0');
    expect((await to('http://load.example')).status).toBe(200);
    expect((await to('http://other.example')).status).toBe(403);
  });

  it.each(['/health/live', '/health/ready', '/metrics', '/docs', '/docs-json', '/idp/jwks', '/idp/.well-known/openid-configuration'])(
    'serves %s to every origin',
    async (path) => {
      expect((await send(service, `GET ${path}`, 'Host: x', FOREIGN)).status).toBe(200);
    },
  );

  it('allows requests for tokens from every origin, because they contain a secret', async () => {
    expect((await send(service, 'POST /idp/token', 'Host: x', FOREIGN, 'Content-Length: 0')).status).not.toBe(403);
  });

  it('refuses after 404 and before 413, 415 and 400', async () => {
    const refused = (path: string, ...headers: string[]) => send(service, `POST ${path}`, 'Host: x', FOREIGN, 'Connection: close', ...headers);
    expect((await refused('/nothing')).status).toBe(404);
    expect((await refused(UPLOAD, `Content-Length: ${String(2 ** 40)}`, 'Expect: 100-continue')).status).toBe(403);
    expect((await refused(UPLOAD, 'Content-Type: application/x-www-form-urlencoded')).status).toBe(403);
    expect((await refused(UPLOAD.replace('customer_id', 'x'))).status).toBe(403);
  });

  it('answers no preflight', async () => {
    const answer = await send(service, `OPTIONS ${UPLOAD}`, 'Host: x', FOREIGN, 'Access-Control-Request-Method: POST');
    expect(answer).toMatchObject({ status: 404, body: '{"error":"Not found."}' });
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('logs what to configure, but not the Origin', async () => {
    await send(service, `POST ${UPLOAD}`, 'Host: x', FOREIGN, 'X-Request-Id: foreign', 'Content-Length: 0');
    await expect.poll(() => service.log.text).toMatch(/"requestId":"foreign".*"kind":"unauthorized","reason":"[^"]*PUBLIC_URL[^"]*CORS_ORIGINS/);
    expect(service.log.text).not.toContain('evil.example');
  });
});

it('a foreign origin is answered with 429 before 403', async () => {
  const service = await start({ RATE_LIMIT_PER_MINUTE: '1' });
  expect(await upload(service, FOREIGN)).toEqual(REFUSED);
  expect((await upload(service, FOREIGN)).status).toBe(429);
  await service.close();
});

describe('with PUBLIC_URL, behind a proxy that changes Host', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await start({ PUBLIC_URL: 'https://Load.Example:443/v1', BASE_PATH: '' });
  });
  afterAll(() => service.close());

  it.each([
    ['https://load.example', 200],
    ['https://LOAD.example:443', 200],
    ['http://load.example', 403],
    ['https://evil.example', 403],
    ['http://127.0.0.1:3000', 403],
  ])('answers %s with %i', async (origin, status) => {
    expect((await upload(service, 'Host: 127.0.0.1:4000', `Origin: ${origin}`)).status).toBe(status);
  });
});

describe('with CORS_ORIGINS', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await start({ CORS_ORIGINS: 'https://app.example, http://localhost:5173', MAX_UPLOAD_BYTES: '100' });
  });
  afterAll(() => service.close());

  it.each([
    ['https://app.example', 200],
    ['https://APP.example:443', 200],
    ['http://localhost:5173', 200],
    ['http://app.example', 403],
    ['http://localhost', 403],
    ['https://evil.example', 403],
    ['null', 403],
    ['*', 403],
    ['https://load.example', 200],
  ])('answers %s with %i', async (origin, status) => {
    expect((await upload(service, `Origin: ${origin}`)).status).toBe(status);
  });

  describe('lets a page of an allowed origin', () => {
    const APP = 'https://app.example';
    const ask = async (method: string, path: string, headers: Record<string, string> = {}, body?: string): Promise<Response> =>
      fetch(service.url + path, { method, headers: { Origin: APP, Authorization: `Bearer ${await service.adminToken()}`, ...headers }, ...(body !== undefined && { body }) });
    const uploadOf = (customer: string): string => UPLOAD.replace('customer_id=a', `customer_id=${customer}`);
    const ID = ['x-request-id'];
    const CONTENT = [...ID, 'accept-ranges', 'content-disposition', 'etag', 'repr-digest'];

    let id: string;
    beforeAll(async () => {
      id = (await ask('POST', uploadOf('kept'), {}, 'the file')).headers.get('x-upload-id') ?? '';
      await ask('POST', uploadOf('kept'), { 'Idempotency-Key': 'kept' }, 'the file');
    });

    it.each<[string, number, readonly string[], () => Promise<Response>]>([
      ['an upload', 200, [...ID, 'x-upload-digest', 'x-upload-id'], () => ask('POST', uploadOf('new'), {}, 'the file')],
      ['a repeated upload', 200, [...ID, 'idempotent-replayed', 'x-upload-digest', 'x-upload-id'], () => ask('POST', uploadOf('kept'), { 'Idempotency-Key': 'kept' }, 'the file')],
      ['a page of uploads', 200, ID, () => ask('GET', '/uploads?customer_id=kept&limit=1')],
      ['one upload', 200, ID, () => ask('GET', `/uploads/${id}`)],
      ['a file', 200, CONTENT, () => ask('GET', `/uploads/${id}/content`)],
      ['the head of a file', 200, CONTENT, () => ask('HEAD', `/uploads/${id}/content`)],
      ['a part of a file', 206, [...CONTENT, 'content-range'], () => ask('GET', `/uploads/${id}/content`, { Range: 'bytes=1-2' })],
      ['a file that it has', 304, [...ID, 'etag'], () => ask('GET', `/uploads/${id}/content`, { 'If-None-Match': '*' })],
      ['a part behind the end of a file', 416, [...ID, 'content-range'], () => ask('GET', `/uploads/${id}/content`, { Range: 'bytes=99-' })],
      ['an upload without a parameter', 400, ID, () => ask('POST', UPLOAD.replace('filename', 'x'), {}, 'the file')],
      ['an upload that is too long', 413, ID, () => ask('POST', UPLOAD, {}, 'x'.repeat(101))],
      ['an upload of another type', 415, ID, () => ask('POST', UPLOAD, { 'Content-Type': 'application/x-www-form-urlencoded' }, 'a=b')],
      ['an upload that nobody has', 404, ID, () => ask('GET', '/uploads/0197f0a0-0000-7000-8000-000000000000')],
      ['an upload without a token', 403, ID, () => ask('GET', `/uploads/${id}`, { Authorization: '' })],
      ['the removal of an upload', 204, ID, async () => ask('DELETE', `/uploads/${(await ask('POST', uploadOf('gone'))).headers.get('x-upload-id') ?? ''}`)],
      ['the removal of a customer', 200, ID, () => ask('DELETE', '/uploads?customer_id=nobody')],
    ])('read every header of the answer about %s (%i)', async (_, status, expected, request) => {
      const { status: got, headers } = await request();
      expect(got).toBe(status);
      expect(headers.get('access-control-allow-origin')).toBe(APP);
      const exposed = (headers.get('access-control-expose-headers') ?? '').toLowerCase().split(',');
      const own = [...headers.keys()].filter((name) => ![...SAFELISTED, ...NOT_FOR_PAGES].includes(name));
      expect(own.filter((name) => exposed.includes(name))).toEqual([...expected].sort());
      expect(own.filter((name) => !exposed.includes(name))).toEqual([]);
    });

    const OF_UPLOADS = ['authorization', 'content-type', 'idempotency-key', 'x-upload-digest', 'content-digest', 'repr-digest', 'x-request-id'];
    it.each<[string, string, readonly string[]]>([
      ['POST', UPLOAD, OF_UPLOADS],
      ['POST', NOWCAST, OF_UPLOADS],
      ['GET', '/uploads', ['authorization', 'x-request-id']],
      ['GET', '/uploads/some', ['authorization']],
      ['GET', '/uploads/some/content', ['authorization', 'range', 'if-range', 'if-none-match']],
      ['HEAD', '/uploads/some/content', ['authorization', 'if-none-match']],
      ['DELETE', '/uploads', ['authorization']],
      ['DELETE', '/uploads/some', ['authorization']],
    ])('send %s %s with its headers', async (method, path, headers) => {
      const answer = await fetch(service.url + path, {
        method: 'OPTIONS',
        headers: { Origin: APP, 'Access-Control-Request-Method': method, 'Access-Control-Request-Headers': headers.join() },
      });
      const listed = (name: string): string[] => (answer.headers.get(name) ?? '').split(',').map((each) => each.trim());
      expect(answer.status).toBe(204);
      expect(listed('access-control-allow-origin')).toEqual([APP]);
      expect(listed('access-control-allow-methods')).toEqual(['GET', 'HEAD', 'POST', 'DELETE']);
      expect(listed('access-control-allow-methods')).toContain(method);
      expect(listed('access-control-allow-headers')).toEqual(expect.arrayContaining([...headers]));
    });

    it.each<[string, Record<string, string>]>([['without an origin', {}], ['with an origin', { Origin: APP }]])('are not any OPTIONS: 404 %s', async (_, headers) => {
      const answer = await fetch(service.url + UPLOAD, { method: 'OPTIONS', headers });
      expect([answer.status, await answer.json()]).toEqual([404, { error: 'Not found.' }]);
    });
  });
});

it('a page of an allowed origin may read Retry-After', async () => {
  const service = await start({ CORS_ORIGINS: 'https://app.example', RATE_LIMIT_PER_MINUTE: '1' });
  const ask = (): Promise<Response> => fetch(`${service.url}/uploads`, { headers: { Origin: 'https://app.example' } });
  await ask();
  const { status, headers } = await ask();
  expect(status).toBe(429);
  expect(headers.get('retry-after')).toMatch(/^\d+$/);
  expect(headers.get('access-control-allow-origin')).toBe('https://app.example');
  expect(headers.get('access-control-expose-headers')?.split(',')).toContain('Retry-After');
  await service.close();
});

describe('with CORS_ORIGINS=*', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await start({ CORS_ORIGINS: '*' });
  });
  afterAll(() => service.close());

  it.each(['https://evil.example', 'null', 'chrome-extension://abc'])('accepts %s', async (origin) => {
    expect((await upload(service, `Origin: ${origin}`)).status).toBe(200);
  });

  it('answers a preflight', async () => {
    const answer = await send(service, `OPTIONS ${UPLOAD}`, 'Host: x', FOREIGN, 'Access-Control-Request-Method: POST');
    expect(answer.status).toBe(204);
    expect(answer.headers['access-control-allow-origin']).toBe('*');
  });
});
