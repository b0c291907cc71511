import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { NotFoundException } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { ServiceError } from '../../src/common/service-error.js';
import { IdentityProvider, type ProviderCallOptions } from '../../src/identity-management/application/ports/identity-provider.port.js';
import { ProviderDeadline } from '../../src/identity-management/application/provider-deadline.js';
import { ProviderError, ProviderMisconfigured, ProviderUnavailable } from '../../src/identity-management/domain/errors.js';
import type { User } from '../../src/identity-management/domain/user.js';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { InMemoryIdentityProvider } from '../../src/testing/in-memory.identity-provider.js';
import { deferred } from '../support/deferred.js';
import { form, FORM_TYPE } from '../support/form.js';
import { open } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const BASE = '/idpManagementBackend';
const OPERATIONS = [
  ['POST', 'assign-role', { user_id: 'a', role_id: 'b' }],
  ['POST', 'create-role', { role_name: 'a', permissions: ['a:b'] }],
  ['POST', 'create-user', { email: 'secret-mail@b.example', roles: [] }],
  ['POST', 'update-user', { user_id: 'a', new_name: 'b' }],
  ['GET', 'roles', undefined],
  ['GET', 'users', undefined],
] as const;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const UPLOADS = [UPLOAD, '/ingestNowcastLoadData/upload_nowcast'];
const QUERY = '?customer_id=a&filename=b.csv&manufacturer=c';
const UNAVAILABLE = '{"error":"Identity provider unavailable."}';
const BROKEN = '{"error":"Identity provider error."}';
const INTERNAL = '{"error":"Internal server error."}';
/** How long a test waits for an expected event, in milliseconds. */
const PATIENCE = { timeout: 10_000 };
const MARKER = 'marker-of-additional-data';

/** The in-memory identity provider. If `script` is set, `listUsers` yields what the script yields. */
class ScriptedProvider extends InMemoryIdentityProvider {
  script: (() => AsyncGenerator<User[], void, undefined>) | undefined;
  /** Settles when the latest scripted list of users has ended. */
  ended = Promise.resolve();

  override listUsers(options: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    const { script } = this;
    if (!script) return super.listUsers(options);
    const { promise, resolve } = deferred();
    this.ended = promise;
    this.lastSignal = options.signal;
    return (async function* () {
      try {
        yield* script();
      } finally {
        resolve();
      }
    })();
  }
}

const provider = new ScriptedProvider(2);
const storage = new InMemoryFileStorage();
let service: RunningService;
let token: string;

beforeAll(async () => {
  service = await startService({}, (builder) =>
    builder.overrideProvider(IdentityProvider).useValue(provider).overrideProvider(FileStorage).useValue(storage),
  );
  token = await service.adminToken();
});
afterEach(() => {
  provider.recover();
  provider.script = undefined;
  storage.recover();
});
afterAll(() => service.close());

let count = 0;
interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
  readonly requestId: string;
}

async function send(method: string, target: string, init: RequestInit = {}, { url } = service): Promise<Answer> {
  const requestId = `failing-${++count}`;
  const headers = { Authorization: `Bearer ${token}`, 'X-Request-Id': requestId, ...(init.headers as Record<string, string> | undefined) };
  const answer = await fetch(url + target, { ...init, method, headers });
  return { status: answer.status, body: await answer.text(), headers: answer.headers, requestId };
}

const identity = (method: string, operation: string, fields: object | undefined, at = service): Promise<Answer> =>
  send(method, `${BASE}/${operation}`, { headers: { 'Content-Type': 'application/json' }, ...(fields && { body: JSON.stringify(fields) }) }, at);

function expectAnswer(answer: Answer, status: number, body: string): void {
  expect({ status: answer.status, body: answer.body }).toEqual({ status, body });
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).toBe(answer.requestId);
  expect(answer.headers.has('retry-after')).toBe(status === 503);
}

/** The texts of the log's error entries that have this request id. */
const errorsOf = (requestId: string, { log } = service): string[] =>
  log.entries.filter(({ level, text }) => level === 'error' && text.includes(`"requestId":"${requestId}"`)).map(({ text }) => text);

const FAILURES: [string, unknown, number, string][] = [
  ['is unreachable', new ProviderUnavailable('down', { cause: new Error('the-cause') }), 503, UNAVAILABLE],
  ['throttles the service for 7 seconds', new ProviderUnavailable('slow', { cause: new Error('the-cause'), retryAfterSeconds: 7 }), 503, UNAVAILABLE],
  ['breaks its contract', new ProviderError('odd', { cause: new Error('the-cause') }), 502, BROKEN],
  ['throws an unexpected error', new TypeError('the-cause'), 502, BROKEN],
  ['throws an exception of Nest', new NotFoundException('the-cause'), 502, BROKEN],
  ['throws with a status', Object.assign(new Error('the-cause'), { status: 403 }), 502, BROKEN],
  ['throws a string', 'the-cause', 502, BROKEN],
];

/** A command and a list, which answer failures in two ways. The other operations answer like one of them. */
const ONE_OF_EACH_WAY: readonly string[] = ['create-role', 'users'];
/** The failures that are enough for the other operations: one for each status. */
const A_FEW = ['is unreachable', 'throws an unexpected error'];

describe.each(OPERATIONS)('%s /%s answers with the documented error when the provider', (method, operation, fields) => {
  it.each(FAILURES.filter(([what]) => ONE_OF_EACH_WAY.includes(operation) || A_FEW.includes(what)))('%s', async (_what, failure, status, body) => {
    provider.failWith(failure as Error);
    const answer = await identity(method, operation, fields);
    expectAnswer(answer, status, body);
    const retryAfter = failure instanceof ProviderUnavailable ? String(failure.retryAfterSeconds) : null;
    expect(answer.headers.get('retry-after')).toBe(retryAfter);
    const logged = errorsOf(answer.requestId);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain('the-cause');

    provider.recover();
    expect((await identity(method, operation, fields)).status).toBeLessThan(500);
  });
});

const users = (page: number, pageSize = 2, nameLength = 10): User[] =>
  Array.from({ length: pageSize }, (_, index) => ({ userId: `memory|${page}-${index}`, name: 'n'.repeat(nameLength), email: '' }));

describe('a list', () => {
  const get = (): string => [`GET ${BASE}/users HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`, `X-Request-Id: list-${++count}`, '', ''].join('\r\n');

  it('of many pages, some of them empty, is one list', async () => {
    provider.script = async function* () {
      await nextIteration();
      for (const page of [[], users(1), [], [], users(2), []]) yield page;
    };
    const { status, body } = await send('GET', `${BASE}/users`);
    expect(status).toBe(200);
    expect((JSON.parse(body) as { users: object[] }).users).toHaveLength(4);
  });

  it.each([
    ['after one page', 1],
    ['after many pages', 50],
  ])('that fails %s ends as an incomplete response', async (_when, pages) => {
    provider.script = async function* () {
      for (let page = 0; page < pages; page++) yield users(page);
      await nextIteration();
      throw new ProviderUnavailable('down', { cause: new Error('the-cause') });
    };
    await expect(send('GET', `${BASE}/users`)).rejects.toThrow();
    const [logged] = errorsOf(`failing-${count}`);
    expect(logged).toContain('the-cause');

    const socket = await open(service.port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString())).on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve).once('end', resolve));
    socket.write(get());
    await closed;
    socket.destroy();
    expect(text).not.toContain('\r\n0\r\n');
    expect(text).not.toContain(']}');
    expect(text).not.toContain('"error"');
  });

  /** Requests a list of users that is too long for any buffer. The client reads nothing from its connection. */
  async function beginEndlessList(): Promise<{ socket: Socket; ours: Socket; given: () => number }> {
    let pages = 0;
    provider.script = async function* () {
      for (; pages < 4_000; pages++) {
        await nextIteration();
        yield users(pages, 1, 65_536);
      }
    };
    const server: Server = service.app.getHttpServer();
    const connected = once(server, 'connection') as Promise<[Socket]>;
    const socket = await open(service.port);
    socket.on('error', () => undefined).pause();
    const [ours] = await connected;
    socket.write(get());
    return { socket, ours, given: () => pages };
  }

  it('reads no further from the provider while the client reads nothing', async () => {
    const { socket, ours, given } = await beginEndlessList();
    await vi.waitFor(() => {
      expect(ours.writableNeedDrain).toBe(true);
    }, PATIENCE);
    // Without back-pressure, the service would read all pages from the provider in this many turns of the event loop.
    for (let turns = 0; turns < 20_000; turns++) await nextIteration();
    expect(given()).toBeLessThan(1_000);
    socket.destroy();
    await provider.ended;
  });

  it('ends the iteration and aborts the call when the client disconnects', async () => {
    const { socket, given } = await beginEndlessList();
    await once(socket, 'readable');
    socket.destroy();
    await provider.ended;
    expect(given()).toBeLessThan(4_000);
    await vi.waitFor(() => {
      expect(provider.lastSignal?.aborted).toBe(true);
    }, PATIENCE);
    expect(errorsOf(`list-${count}`)).toEqual([]);
  });

  it.each<[string, (socket: Socket) => void]>([
    ['closes the connection', (socket) => { socket.destroy(); }],
    ['resets the connection', (socket) => { socket.resetAndDestroy(); }],
  ])('ends the iteration when the client %s while the provider yields only empty pages', async (_how, disconnect) => {
    let pages = 0;
    provider.script = async function* () {
      yield users(0);
      for (; pages < 20_000; pages++) {
        await nextIteration();
        yield [];
      }
    };
    const socket = await open(service.port);
    socket.on('error', () => undefined).write(get());
    await once(socket, 'data');
    disconnect(socket);
    await provider.ended;
    expect(pages).toBeLessThan(20_000);
    expect(errorsOf(`list-${count}`)).toEqual([]);
  });

  it('reads at most one page and ends the iteration for HEAD', async () => {
    let pages = 0;
    provider.script = async function* () {
      for (; ; pages++) {
        await nextIteration();
        yield users(pages);
      }
    };
    expectAnswer(await send('HEAD', `${BASE}/users`), 200, '');
    await provider.ended;
    expect(pages).toBe(0);
  });

  it.each([
    ['unreachable', new ProviderUnavailable('down'), 503],
    ['broken', new TypeError('odd'), 502],
  ])('answers HEAD like GET when the provider is %s', async (_what, failure, status) => {
    provider.failWith(failure);
    expectAnswer(await send('HEAD', `${BASE}/users`), status, '');
  });
});

describe('the file storage', () => {
  const bodies: [string, RequestInit][] = [
    ['JSON', { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ additional_data: MARKER }) }],
    ['bytes', { headers: { 'Content-Type': 'text/csv' }, body: 'a,b' }],
    [
      'a form',
      {
        headers: { 'Content-Type': FORM_TYPE },
        body: new Uint8Array(form({ name: 'additional_data', value: MARKER }, { name: 'file', value: 'a,b', filename: 'b.csv' })),
      },
    ],
  ];
  const failures: [string, unknown][] = [
    ['fails', new ServiceError('storage-failure', 'disk full', { cause: new Error('the-cause') })],
    ['throws an unexpected error', new TypeError('the-cause')],
    ['throws an exception of Nest', new NotFoundException('the-cause')],
    ['throws with a status', Object.assign(new Error('the-cause'), { status: 413 })],
  ];

  // One kind of body shows all failures. One failure shows that all bodies and both operations pass it on.
  const cases = UPLOADS.flatMap((path, kind) =>
    bodies.flatMap(([what, init], body) => failures.slice(0, kind + body === 0 ? undefined : 1).map((failure) => [path, what, ...failure, init] as const)),
  );
  it.each(cases)(
    '%s of %s answers 500 while it %s, and works again afterwards',
    async (path, _what, _how, failure, init) => {
      const before = storage.uploads.length;
      storage.failWith(failure as Error);
      const answer = await send('POST', path + QUERY, init);
      expectAnswer(answer, 500, INTERNAL);
      const logged = errorsOf(answer.requestId);
      expect(logged).toHaveLength(1);
      expect(logged[0]).toContain('the-cause');
      storage.recover();
      expect((await send('POST', path + QUERY, init)).status).toBe(200);
      expect(storage.uploads).toHaveLength(before + 1);
    },
  );

  it.each(UPLOADS)('%s works while the provider is down', async (path) => {
    provider.failWith(new ProviderUnavailable('down'));
    for (const [, init] of bodies) expect((await send('POST', path + QUERY, init)).status).toBe(200);
  });

  it.each(OPERATIONS)('%s /%s works while it fails', async (method, operation, fields) => {
    storage.failWith(new ServiceError('storage-failure'));
    expect((await identity(method, operation, fields)).status).toBeLessThan(500);
  });
});

describe('health', () => {
  const up = { status: 'up' };
  const down = { status: 'down' };
  const failures: [string, () => void, object, object][] = [
    ['nothing', () => undefined, { file_storage: up, identity_provider: up }, {}],
    ['the provider', () => { provider.failWith(new ProviderUnavailable('the-cause')); }, { file_storage: up }, { identity_provider: down }],
    [
      'a misconfigured provider',
      () => { provider.failWith(new ProviderMisconfigured(['There is no realm.', 'There is no client.'])); },
      { file_storage: up },
      { identity_provider: { status: 'down', problems: ['There is no realm.', 'There is no client.'] } },
    ],
    ['the storage', () => { storage.failWith(new Error('the-cause')); }, { identity_provider: up }, { file_storage: down }],
    [
      'both',
      () => {
        provider.failWith(new TypeError('the-cause'));
        storage.failWith(new Error('the-cause'));
      },
      {},
      { file_storage: down, identity_provider: down },
    ],
  ];

  it.each(failures)('is reported correctly when %s is unhealthy', async (what, fail, info, error) => {
    fail();
    const ready = await send('GET', '/health/ready');
    expect({ status: ready.status, body: JSON.parse(ready.body) as unknown }).toEqual(
      what === 'nothing'
        ? { status: 200, body: { status: 'ok', info, error, details: info } }
        : { status: 503, body: { status: 'error', info, error, details: { ...info, ...error } } },
    );
    expect(ready.headers.get('x-request-id')).toBe(ready.requestId);
    const live = await send('GET', '/health/live');
    expect({ status: live.status, body: JSON.parse(live.body) as unknown }).toEqual({
      status: 200,
      body: { status: 'ok', info: {}, error: {}, details: {} },
    });

    provider.recover();
    storage.recover();
    expect((await send('GET', '/health/ready')).status).toBe(200);
  });
});

describe('the log', () => {
  it('reports each problem of the provider once, in its own line', async () => {
    const lines = (text: string): number => service.log.entries.filter((entry) => entry.level === 'error' && entry.text.includes(text)).length;
    provider.failWith(new ProviderMisconfigured(['It lacks one.', 'It lacks another.']));
    await send('GET', '/health/ready');
    await send('GET', '/health/ready');
    provider.failWith(new ProviderMisconfigured(['It lacks another.', 'It lacks a third.']));
    await send('GET', '/health/ready');
    expect(['one', 'another', 'a third'].map((what) => lines(`identity_provider: It lacks ${what}.`))).toEqual([1, 1, 1]);
    provider.recover();
    await send('GET', '/health/ready');
    expect(service.log.entries.at(-2)?.text).toContain('identity_provider is healthy again');
  });

  it.each([
    ['the code of the first of several errors', new AggregateError([Object.assign(new Error(''), { code: 'ECONNREFUSED' }), new Error('another')]), 'ECONNREFUSED'],
    ['the cause of several errors', new AggregateError([new Error('one'), new Error('another')], 'both', { cause: new Error('no network') }), 'no network'],
  ])('says in the line of a failed health check what the innermost cause is: %s', async (_, cause, reason) => {
    storage.failWith(new ServiceError('storage-failure', 'The store took no object.', { cause: new Error('outer', { cause }) }));
    await send('GET', '/health/ready');
    expect(service.log.entries.findLast(({ text }) => text.includes('file_storage is unhealthy'))?.text).toContain(`"reason":"The store took no object. (${reason})"`);
    storage.recover();
    await send('GET', '/health/ready');
  });

  it('contains no token, secret or additional_data', async () => {
    const secret = (await readFile(join(service.dataDirectory, 'identity', 'admin-secret'), 'utf8')).trim();
    const basic = `Basic ${Buffer.from(`admin:${secret}`).toString('base64')}`;
    const ask = (authorization: string): Promise<Answer> =>
      send('POST', '/idp/token', { headers: { Authorization: authorization }, body: new URLSearchParams({ grant_type: 'client_credentials' }) });
    const granted = await ask(basic);
    expect(granted.status).toBe(200);
    expect((await ask(`Basic ${Buffer.from(`admin:${secret}x`).toString('base64')}`)).status).toBe(401);
    const json = { 'Content-Type': 'application/json' };
    for (const [target, body] of [
      [UPLOAD + QUERY, MARKER],
      [UPLOAD + QUERY, JSON.stringify({ additional_data: [MARKER] })],
      [`${UPLOAD}${QUERY}&additional_data=${MARKER}&customer_id=x`, '{}'],
      [`${BASE}/create-role`, MARKER],
    ] as const) {
      expect((await send('POST', target, { headers: json, body })).status).toBe(400);
    }
    await send('GET', `${BASE}/users`, { headers: { Authorization: `Bearer ${token}x` } });

    const { text } = service.log;
    expect(text.includes(granted.requestId)).toBe(true);
    const { access_token: issued } = JSON.parse(granted.body) as { access_token: string };
    const markers = { token, issued, secret, basic: basic.slice(6), additionalData: MARKER };
    expect(Object.entries(markers).filter(([, marker]) => text.includes(marker)).map(([name]) => name)).toEqual([]);
  });
});

// This describe must be the last in the file, because Nest logs to the application that was created last.
describe('when the provider does not respond', () => {
  const silent = new InMemoryIdentityProvider();
  let impatient: RunningService;
  beforeAll(async () => {
    impatient = await startService({}, (builder) =>
      builder
        .overrideProvider(IdentityProvider)
        .useValue(silent)
        .overrideProvider(ProviderDeadline)
        .useValue(new ProviderDeadline(silent, 20)),
    );
  });
  afterAll(() => impatient.close());

  it.each(OPERATIONS)('%s /%s gives up and aborts the call', async (method, operation, fields) => {
    silent.hang();
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${await impatient.adminToken()}` };
    const answer = await send(method, `${BASE}/${operation}`, { headers, ...(fields && { body: JSON.stringify(fields) }) }, impatient);
    expectAnswer(answer, 503, UNAVAILABLE);
    expect(errorsOf(answer.requestId, impatient)).toHaveLength(1);
    expect(silent.lastSignal?.aborted).toBe(true);
    silent.recover();
    await vi.waitFor(() => {
      expect(silent.openLists).toBe(0);
    }, PATIENCE);
  });
});
