import { writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LOG_SERIALIZERS } from '../../src/operations/log-format.js';
import { type LogOptions, PinoLoggerService } from '../../src/operations/logging.js';
import { undocumentedMembers } from '../support/log-page.js';
import { exchange, open, readAnswer } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const MARK = 'MARK';
const WHO = 'customer_id=MARK-customer&filename=MARK-file.csv&manufacturer=MARK-maker';
const UPLOAD = `/ingestHistoricalLoadData/upload_historical?${WHO}`;
const IDENTITY = '/idpManagementBackend';

/** The logs of all services of these tests, each as it is so far. */
const logs: (() => string)[] = [];
afterAll(async () => {
  const lines = logs.flatMap((logged) => logged().trimEnd().split('\n'));
  expect(await undocumentedMembers(lines.map((line) => JSON.parse(line) as object))).toEqual([]);
});

/** Starts a service in this process that logs like a service in its own process. `logged` returns the log so far. */
async function startLogging(variables: Record<string, string> = {}, options: LogOptions = {}): Promise<RunningService & { readonly logged: () => string }> {
  const service = await startService(variables);
  const stream = new PassThrough();
  let text = '';
  stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
  service.app.useLogger(new PinoLoggerService(pino({ base: null, level: 'trace', serializers: LOG_SERIALIZERS }, stream), options));
  const logged = () => text;
  logs.push(logged);
  return { ...service, logged };
}

const post = (path: string, body: string, ...headers: string[]): string =>
  [`POST ${path} HTTP/1.1`, 'Host: x', `Content-Length: ${Buffer.byteLength(body)}`, ...headers, '', body].join('\r\n');

describe('the log', () => {
  let service: Awaited<ReturnType<typeof startLogging>>;
  beforeAll(async () => {
    service = await startLogging();
  });
  afterAll(() => service.close());

  /** Sends a request with this request id, and waits for its log line. */
  async function logLine(id: string, request: string): Promise<{ status: number; line: string }> {
    const { status } = await exchange(service.port, request.replace('\r\n', `\r\nX-Request-Id: ${id}\r\n`));
    return { status, line: await lineOf(id) };
  }
  async function lineOf(id: string): Promise<string> {
    const found = (): string | undefined => service.logged().split('\n').find((line) => line.includes(`"requestId":"${id}"`) && line.includes('"msg":"request"'));
    return vi.waitFor(() => found() ?? expect.fail(`no line of ${id}`));
  }

  it('contains neither the key nor the customer of a request whose key is in progress', async () => {
    const key = 'Idempotency-Key: MARK-key';
    const first = await open(service.port);
    const whole = post(UPLOAD, 'x'.repeat(100), key, 'Content-Type: text/csv');
    first.write(whole.slice(0, -1));
    const repeat = (): Promise<{ status: number }> => exchange(service.port, post(UPLOAD, 'abc', key, 'Content-Type: text/csv', 'X-Request-Id: repeat'));
    await vi.waitFor(async () => { expect((await repeat()).status).toBe(409); });
    expect(await lineOf('repeat')).toContain('"kind":"request-in-progress"');
    const answer = readAnswer(first);
    first.write(whole.slice(-1));
    expect((await answer).status).toBe(200);
    first.destroy();
    expect(service.logged()).not.toContain(MARK);
  });

  it.each([
    ['an upload', 200, post(UPLOAD, 'MARK', 'Content-Type: text/csv; charset=MARK')],
    ['a JSON upload', 200, post(UPLOAD, '{"additional_data":"MARK"}', 'Content-Type: application/json')],
    ['a form', 200, post(UPLOAD, '--MARK\r\nContent-Disposition: form-data; name="file"; filename="MARK"\r\n\r\nMARK\r\n--MARK--', 'Content-Type: multipart/form-data; boundary=MARK')],
    ['a malformed form', 400, post(UPLOAD, '--MARK\r\nContent-Disposition: MARK"\r\n\r\nMARK', 'Content-Type: multipart/form-data; boundary=MARK')],
    ['malformed JSON', 400, post(UPLOAD, '{"MARK', 'Content-Type: application/json')],
    ['an unsupported coding', 415, post(UPLOAD, 'MARK', 'Content-Encoding: MARK')],
    ['a malformed digest', 400, post(UPLOAD, 'MARK', 'Content-Digest: MARK')],
    ['another digest', 400, post(UPLOAD, 'MARK', `Content-Digest: sha-256=:${Buffer.alloc(32, MARK).toString('base64')}:`)],
    ['a malformed key', 400, post(UPLOAD, 'MARK', 'Idempotency-Key: MARK MARK')],
    ['a key', 200, post(UPLOAD, 'MARK', 'Idempotency-Key: MARK')],
    ['a reused key', 422, post(UPLOAD, 'MARK2', 'Idempotency-Key: MARK')],
    ['a malformed query', 400, post(UPLOAD.replace('customer_id=', 'customer_id[MARK]='), 'MARK')],
    ['a malformed host', 400, post(UPLOAD, 'MARK').replace('Host: x', 'Host: MARK MARK')],
    ['a transfer coding', 400, post(UPLOAD, 'MARK').replace('Content-Length: 4', 'Transfer-Encoding: MARK, chunked')],
    ['another origin', 403, post(UPLOAD, 'MARK', 'Origin: https://MARK.example')],
    ['no token', 403, post(`${IDENTITY}/create-user`, '{"email":"MARK@MARK.example"}', 'Authorization: Bearer MARK.MARK.MARK')],
    ['two tokens', 403, post(`${IDENTITY}/create-user`, '{}', 'Authorization: Bearer MARK', 'Authorization: Basic MARK')],
    ['an invalid secret', 401, post('/idp/token', 'grant_type=client_credentials&MARK=MARK', `Authorization: Basic ${Buffer.from('MARK:MARK').toString('base64')}`, 'Content-Type: application/x-www-form-urlencoded')],
    ['an invalid grant', 401, post('/idp/token', 'grant_type=MARK', 'Content-Type: application/x-www-form-urlencoded')],
  ])('contains nothing that the client sent with %s', async (name, status, request) => {
    const { status: answered, line } = await logLine(name.replaceAll(' ', '-'), request);
    expect(answered).toBe(status);
    expect(line).toContain(`"status":${String(status)}`);
    expect(service.logged()).not.toMatch(/MARK|TUFSS/);
  });

  it('names the upload of a request, by which its customer can be found, and no upload where there is none', async () => {
    const path = `/ingestHistoricalLoadData/upload_historical?${WHO}`;
    const { headers } = await exchange(service.port, post(path, 'MARK', 'Content-Type: text/csv', 'X-Request-Id: named'));
    const { uploadId } = JSON.parse(await lineOf('named')) as Record<string, unknown>;
    expect(uploadId).toBe(headers['x-upload-id']);
    const authorization = { Authorization: `Bearer ${await service.adminToken()}` };
    const found = await fetch(`${service.url}/uploads/${String(uploadId)}`, { headers: authorization });
    expect(await found.json()).toMatchObject({ upload_id: uploadId, customer_id: 'MARK-customer' });
    expect(JSON.parse((await logLine('unnamed', post('/upload', ''))).line)).not.toHaveProperty('uploadId');
  });

  it.each([
    ['breaks off', 'abc', (socket: Socket) => socket.end()],
    ['has a malformed chunk', 'abc', (socket: Socket) => socket.write('xyz\r\n')],
  ])('has one line for a request whose body %s', async (name, body, continueBadly) => {
    const id = name.replaceAll(' ', '-');
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    socket.write(`POST ${UPLOAD} HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${id}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n${body}\r\n`);
    continueBadly(socket);
    expect((await answer).status).toBe(400);
    socket.destroy();
    expect(JSON.parse(await lineOf(id))).toMatchObject({ method: 'POST', status: 400, kind: 'bad-request', reason: 'refused by the HTTP parser' });
    await exchange(service.port, post(UPLOAD, '', 'X-Request-Id: after'));
    await lineOf('after');
    expect(service.logged().split(`"requestId":"${id}"`)).toHaveLength(2);
  });

  it.each([
    ['which parameter is wrong', post('/ingestNowcastLoadData/upload_nowcast?customer_id=a&filename=b/c', ''), 'invalid-query-parameter', 'invalid, missing or repeated: filename, manufacturer'],
    ['which permission a token lacks', post(`${IDENTITY}/create-user`, '{}', 'Authorization: Bearer x'), 'unauthorized', 'The access token is missing or invalid.'],
  ])('says %s', async (name, request, kind, reason) => {
    const { line } = await logLine(name.replaceAll(' ', '-'), request);
    expect(JSON.parse(line)).toMatchObject({ kind, reason });
  });

  it.each([
    ['create-role', { role_name: 'Taken', permissions: ['a:b'] }, 'invalid-role', 'role_name is taken'],
    ['create-role', { permissions: ['a:b'] }, 'invalid-role', 'invalid or missing: role_name'],
    ['create-role', { role_name: 'x', permissions: ['a b'] }, 'invalid-role', 'invalid: permissions'],
    ['create-user', { email: 'taken@grid.example', roles: [] }, 'invalid-user', 'email is taken'],
    ['create-user', { email: 'x', roles: 'x' }, 'invalid-user', 'invalid or missing: email, roles'],
    ['create-user', { email: 'x@grid.example', roles: ['x'] }, 'invalid-user', 'role_id is unknown'],
    ['update-user', { user_id: 'embedded|x', new_name: 'x' }, 'invalid-user-update', 'user_id is unknown'],
    ['assign-role', { user_id: 'embedded|x', role_id: 'x' }, 'invalid-role-assignment', 'user_id is unknown'],
  ])('says why %s refused %j', async (operation, body, kind, reason) => {
    const authorization = `Authorization: Bearer ${await service.adminToken()}`;
    const send = (id: string, path: string, sent: object) =>
      logLine(id, post(`${IDENTITY}/${path}`, JSON.stringify(sent), 'Content-Type: application/json', authorization));
    await send('taken-role', 'create-role', { role_name: 'Taken', permissions: ['a:b'] });
    await send('taken-user', 'create-user', { email: 'taken@grid.example', roles: [] });
    const { status, line } = await send(`refused-${String(Math.random()).slice(2)}`, operation, body);
    expect(status).toBe(400);
    expect(JSON.parse(line)).toMatchObject({ kind, reason });
  });

  it('contains nothing that the client sent about roles and users', async () => {
    const token = await service.adminToken();
    const sent = [
      ['create-role', { role_name: 'MARK', permissions: ['read:MARK'] }],
      ['create-role', { role_name: 'MARK', permissions: ['read:MARK'] }],
      ['create-role', { role_name: 'MARK\n', permissions: ['MARK'] }],
      ['create-user', { email: 'MARK@MARK.example', name: 'MARK', roles: [] }],
      ['create-user', { email: 'mark@MARK.example', name: 'MARK', roles: [] }],
      ['create-user', { email: 'MARK', name: 'MARK', roles: ['MARK'] }],
      ['create-user', { email: 'MARK2@MARK.example', roles: ['MARK'] }],
      ['update-user', { user_id: 'MARK', new_name: 'MARK' }],
      ['assign-role', { user_id: 'embedded|MARK', role_id: 'MARK' }],
    ] as const;
    for (const [index, [operation, body]] of sent.entries()) {
      const request = post(`${IDENTITY}/${operation}`, JSON.stringify(body), 'Content-Type: application/json', `Authorization: Bearer ${token}`);
      await logLine(`identity-${String(index)}`, request);
    }
    expect(service.logged()).not.toMatch(/mark/i);
    expect(service.logged()).not.toContain(token);
  });
});

it('with LOG_CUSTOMERS names the customer of each request about uploads, and nothing else that the client sent', async () => {
  const service = await startLogging({}, { customers: true });
  const headers = { Authorization: `Bearer ${await service.adminToken()}` };
  const customerOf = async (id: string, method: string, path: string): Promise<unknown> => {
    await (await fetch(`${service.url}${path}`, { method, headers: { ...headers, 'X-Request-Id': id, 'Content-Type': 'text/csv' }, ...(method === 'POST' && { body: 'MARK' }) })).arrayBuffer();
    const line = await vi.waitFor(() => service.logged().split('\n').find((each) => each.includes(`"requestId":"${id}"`)) ?? expect.fail(`no line of ${id}`));
    expect(line.replaceAll('MARK-customer', '')).not.toContain(MARK);
    return (JSON.parse(line) as Record<string, unknown>).customerId;
  };
  expect(await customerOf('store', 'POST', UPLOAD)).toBe('MARK-customer');
  const [{ upload_id: id }] = ((await (await fetch(`${service.url}/uploads`, { headers })).json()) as { uploads: [{ upload_id: string }] }).uploads;
  for (const path of [`/uploads/${id}`, `/uploads/${id}/content`, '/uploads?customer_id=MARK-customer']) expect(await customerOf(path.replaceAll(/\W/g, '-'), 'GET', path)).toBe('MARK-customer');
  expect(await customerOf('list-all', 'GET', '/uploads')).toBeUndefined();
  expect(await customerOf('invalid', 'GET', '/uploads?customer_id=MARK%00')).toBeUndefined();
  expect(await customerOf('remove', 'DELETE', `/uploads/${id}`)).toBe('MARK-customer');
  expect(await customerOf('remove-all', 'DELETE', '/uploads?customer_id=MARK-customer')).toBe('MARK-customer');
  await service.close();
});

it.each([true, false])('with LOG_SUBJECTS (%s) names the sender of each request with a valid token', async (subjects) => {
  const service = await startLogging({}, { subjects });
  const token = await service.adminToken();
  const { sub } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
  const subjectOf = async (id: string, method: string, path: string, authorization: string): Promise<unknown> => {
    await (await fetch(`${service.url}${path}`, { method, headers: { Authorization: authorization, 'X-Request-Id': id } })).arrayBuffer();
    const line = await vi.waitFor(() => service.logged().split('\n').find((each) => each.includes(`"requestId":"${id}"`)) ?? expect.fail(`no line of ${id}`));
    return (JSON.parse(line) as Record<string, unknown>).subject;
  };
  const expected = subjects ? sub : undefined;
  expect(await subjectOf('list', 'GET', `${IDENTITY}/roles`, `Bearer ${token}`)).toBe(expected);
  expect(await subjectOf('remove', 'DELETE', '/uploads?customer_id=c', `Bearer ${token}`)).toBe(expected);
  expect(await subjectOf('invalid', 'POST', `${IDENTITY}/create-role`, `Bearer ${token}`)).toBe(expected);
  expect(await subjectOf('forged', 'GET', `${IDENTITY}/roles`, `Bearer ${token}x`)).toBeUndefined();
  expect(await subjectOf('open', 'GET', '/health/live', `Bearer ${token}`)).toBeUndefined();
  await service.close();
});

it('has the durations that the metrics have', async () => {
  const service = await startLogging();
  const requests = [['GET', '/uploads'], ['DELETE', '/uploads'], ...['users', 'roles'].map((name) => ['GET', `${IDENTITY}/${name}`]), ...['assign-role', 'create-role', 'create-user', 'update-user'].map((name) => ['POST', `${IDENTITY}/${name}`])] as const;
  for (const [method, path] of requests) expect((await fetch(service.url + path, { method })).status).toBe(403);
  const lines = await vi.waitFor(() => {
    const found = service.logged().split('\n').filter((line) => line.includes('"msg":"request"'));
    expect(found).toHaveLength(requests.length);
    return found.map((line) => JSON.parse(line) as { readonly method: string; readonly path: string; readonly ms: number });
  });
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  const seconds = [...metrics.matchAll(/^http_request_duration_seconds_sum\{method="(.*)",route="(.*)"\} (.*)$/gm)];
  const asked = seconds.filter(([, , , sum]) => Number(sum) > 0);
  const measured = asked.map(([, method, path, sum]) => ({ method, path, ms: Math.round(Number(sum) * 10_000) / 10 }));
  const inOrder = (all: readonly { readonly method?: string | undefined; readonly path?: string | undefined; readonly ms: number }[]) => all.map(({ method, path, ms }) => `${method} ${path} ${ms}`).sort();
  expect(inOrder(measured)).toEqual(inOrder(lines));
  await service.close();
});

it('reports what failed on a disk and where, without the customer', async () => {
  const service = await startLogging();
  await writeFile(join(service.dataDirectory, 'files', 'kind=historical', 'customer_id=MARK-customer'), '');
  const body = 'x'.repeat(2_000_000);
  const answer = await exchange(service.port, post(UPLOAD, body, 'Content-Type: text/csv', 'X-Request-Id: failed'));
  expect(answer.status).toBe(500);
  await vi.waitFor(() => { expect(service.logged()).toMatch(/"code":"(ENOTDIR|EEXIST)"/); });
  expect(service.logged()).not.toContain(MARK);
  await service.close();
});
