import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LocalDiskFileStorage } from '../../src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { GatedDisk } from '../../src/testing/gated-disk.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { anUploadDraft, storeUpload } from '../../src/testing/upload-draft.builder.js';
import { MIB } from '../../src/common/sizes.js';
import { uuidAt } from '../../src/common/uuid.js';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import type { Upload } from '../../src/ingestion/domain/upload.js';
import { type RunningService, startService } from '../support/service.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const UNKNOWN = '0197f0a0-0000-7000-8000-000000000000';
const BYTES = 'NEM12 '.repeat(1_000);

let service: RunningService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());

interface Stored {
  readonly id: string;
  readonly customer: string;
}

let customers = 0;
const newCustomer = (): string => `customer-${++customers}`;

async function store(init: { customer?: string; filename?: string; type?: string; body?: string | Uint8Array<ArrayBuffer>; path?: string; key?: string } = {}): Promise<Stored> {
  const { customer = newCustomer(), filename = 'load.csv', type = 'text/csv', body = BYTES, path = UPLOAD, key } = init;
  const query = new URLSearchParams({ customer_id: customer, filename, manufacturer: 'meters' });
  const headers = { 'Content-Type': type, ...(key === undefined ? {} : { 'Idempotency-Key': key }) };
  const answer = await fetch(`${service.url}${path}?${query.toString()}`, { method: 'POST', headers, body });
  expect(answer.status).toBe(200);
  return { id: answer.headers.get('x-upload-id') ?? '', customer };
}

async function ask(target: string, init: { method?: string; covers?: string[]; headers?: Record<string, string>; token?: string } = {}): Promise<Response> {
  const { method = 'GET', covers, headers = {}, token = await service.adminToken(covers) } = init;
  return fetch(service.url + target, { method, headers: { ...headers, Authorization: `Bearer ${token}` } });
}

async function expectError(answer: Response, status: number, error: string): Promise<void> {
  expect({ status: answer.status, body: await answer.json() }).toEqual({ status, body: { error } });
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).not.toBeNull();
}

interface Page {
  uploads: Record<string, unknown>[];
  next_page_token: string | null;
}
const list = async (query: Record<string, string>, covers?: string[]): Promise<Page> => {
  const answer = await ask(`/uploads?${new URLSearchParams(query).toString()}`, { ...(covers && { covers }) });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Page;
};
/** Returns once the clock has advanced to another millisecond, so that the next upload has a later `received_at`. */
function nextMillisecond(): void {
  for (const now = Date.now(); Date.now() === now; );
}

function deferred<Value>() {
  let resolve = (_: Value): void => undefined;
  const promise = new Promise<Value>((done) => (resolve = done));
  return { promise, resolve: (value: Value | Promise<Value>) => void Promise.resolve(value).then((each) => { resolve(each); }) };
}

const idsOf = ({ uploads }: Page): unknown[] => uploads.map(({ upload_id }) => upload_id);

/** The headers of an answer, except those that differ between two answers to the same request. */
function headersOf({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => !['date', 'x-request-id', 'connection', 'keep-alive'].includes(name)));
}

/** The path of the file of an upload in the data directory. */
async function fileOf({ id }: Stored): Promise<string> {
  const [path] = (await service.files('files')).filter((file) => file.includes(id));
  expect(path).toBeDefined();
  return path ?? '';
}

describe('access', () => {
  const operations: [string, (upload: Stored) => string, number][] = [
    ['GET', ({ customer }) => `/uploads?customer_id=${customer}`, 200],
    ['GET', ({ id }) => `/uploads/${id}`, 200],
    ['GET', ({ id }) => `/uploads/${id}/content`, 200],
    ['DELETE', ({ customer }) => `/uploads?customer_id=${customer}`, 200],
    ['DELETE', ({ id }) => `/uploads/${id}`, 204],
  ];

  it.each(operations)('%s %s needs a token although uploads are open', async (method, target) => {
    const upload = await store();
    await expectError(await fetch(service.url + target(upload), { method }), 403, 'Unauthorized.');
    await expectError(await ask(target(upload), { method, token: 'x.y.z' }), 403, 'Unauthorized.');
    expect((await ask(`/uploads/${upload.id}`)).status).toBe(200);
  });

  it.each(operations)('%s %s serves a token that covers the customer', async (method, target, status) => {
    const upload = await store();
    expect((await ask(target(upload), { method, covers: ['other', upload.customer] })).status).toBe(status);
  });

  it.each(operations)('%s %s refuses a token of another customer, and reveals nothing of the upload', async (method, target) => {
    const upload = await store();
    const isList = target(upload).includes('?');
    await expectError(await ask(target(upload), { method, covers: ['other'] }), isList ? 403 : 404, isList ? 'Unauthorized.' : 'Not found.');
    expect((await ask(`/uploads/${upload.id}`)).status).toBe(200);
  });

  it.each(['/uploads', '/uploads?kind=nowcast'])('lists all customers (%s) only for a token that covers all', async (target) => {
    await expectError(await ask(target, { covers: ['acme'] }), 403, 'Unauthorized.');
    expect((await ask(target)).status).toBe(200);
  });

  it.each(['', '/content'])('answers 404 for unknown ids, and HEAD like GET (%s)', async (rest) => {
    for (const id of [UNKNOWN, 'x', '..', 'ffffffff-ffff-7fff-bfff-ffffffffffff']) {
      await expectError(await ask(`/uploads/${encodeURIComponent(id)}${rest}`), 404, 'Not found.');
    }
    const { id } = await store();
    const head = await ask(`/uploads/${id}${rest}`, { method: 'HEAD' });
    const get = await ask(`/uploads/${id}${rest}`);
    expect(head.status).toBe(200);
    expect(head.headers.get('content-length')).toBe(String((await get.arrayBuffer()).byteLength));
  });
});

describe('GET /uploads/<upload_id>', () => {
  it('answers with the members of the line, except its path and key', async () => {
    const { id, customer } = await store({ key: 'key-1' });
    const answer = await ask(`/uploads/${id}`);
    expect(await answer.json()).toEqual({
      upload_id: id,
      kind: 'historical',
      customer_id: customer,
      filename: 'load.csv',
      manufacturer: 'meters',
      additional_data: null,
      received_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as unknown,
      content_type: 'text/csv',
      content_size: BYTES.length,
      content_sha256: createHash('sha256').update(BYTES).digest('hex'),
    });
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  });

  it('answers with a long additional_data unchanged', async () => {
    const text = 'é"\n'.repeat(300_000);
    const { id } = await store({ type: 'application/json', body: JSON.stringify({ additional_data: text }) });
    const answer = await ask(`/uploads/${id}`);
    const upload = (await answer.json()) as Record<string, unknown>;
    expect(upload.additional_data === text).toBe(true);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(upload).toMatchObject({ content_type: null, content_size: null, content_sha256: null });
  });
});

describe('GET /uploads', () => {
  it('lists the uploads of a customer page by page, newest first', async () => {
    const customer = newCustomer();
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) {
      ids.unshift((await store({ customer })).id);
      nextMillisecond();
    }
    const found: unknown[] = [];
    let token: string | null | undefined;
    do {
      const page = await list({ customer_id: customer, limit: '2', ...(token ? { page_token: token } : {}) }, [customer]);
      found.push(...idsOf(page));
      token = page.next_page_token;
    } while (token !== null);
    expect(found).toEqual(ids);
  });

  it('selects by kind and time', async () => {
    const customer = newCustomer();
    const { id } = await store({ customer });
    const nowcast = await store({ customer, path: '/ingestNowcastLoadData/upload_nowcast' });
    const { received_at: at } = (await list({ customer_id: customer, kind: 'historical' })).uploads[0] ?? {};
    const after = new Date(Date.parse(String(at)) + 1).toISOString();
    expect(idsOf(await list({ customer_id: customer, kind: 'nowcast' }))).toEqual([nowcast.id]);
    expect(idsOf(await list({ customer_id: customer, kind: 'historical', from: String(at) }))).toEqual([id]);
    expect(idsOf(await list({ customer_id: customer, kind: 'historical', to: String(at) }))).toEqual([]);
    expect(idsOf(await list({ customer_id: customer, kind: 'historical', to: after }))).toEqual([id]);
    expect(idsOf(await list({ customer_id: customer, kind: 'historical', from: after.replace('Z', '+00:00') }))).toEqual([]);
  });

  it.each([
    'limit=0', 'limit=1001', 'limit=1.5', 'limit=x', 'limit=', 'limit=1&limit=2', 'limit[]=1',
    'kind=other', 'kind=', 'customer_id=', 'customer_id=%01', `customer_id=${'x'.repeat(129)}`, 'customer_id=a&customer_id=b', 'customer_id[]=a',
    'from=yesterday', 'from=2025-01-01', 'from=2025-02-30T00:00:00Z', 'to=2025-01-01T00:00:00', 'to=2025-01-01T25:00:00Z', 'from=',
    'page_token=', 'page_token=x', `page_token=${Buffer.from('2025-01-01T00:00:00.000Zx').toString('base64url')}`,
  ])('refuses ?%s', async (query) => {
    await expectError(await ask(`/uploads?${query}`), 400, 'Invalid or missing query parameter.');
  });

  it('refuses a token before it looks at the query', async () => {
    expect((await fetch(`${service.url}/uploads?customer_id=acme&limit=0`)).status).toBe(403);
    await expectError(await ask('/uploads?customer_id=acme&limit=0', { covers: ['other'] }), 403, 'Unauthorized.');
  });

  it.each<[number, Readonly<Record<string, string>>]>([
    [100, {}],
    [1_000, { limit: '1000' }],
  ])('lists up to %i uploads in a page with %j', async (limit, query) => {
    const customer = newCustomer();
    const storage = service.app.get(FileStorage, { strict: false });
    const drafts = Array.from({ length: limit + 1 }, () => anUploadDraft().with({ customerId: customer }).build());
    const stored = (await Promise.all(drafts.map((draft) => storeUpload(storage, draft)))).map(({ uploadId }) => uploadId);
    const page = await list({ ...query, customer_id: customer });
    expect(page.uploads).toHaveLength(limit);
    const rest = await list({ ...query, customer_id: customer, page_token: page.next_page_token ?? '' });
    expect([...idsOf(page), ...idsOf(rest)].sort()).toEqual(stored.sort());
  });

  it.each(['limit=1', 'limit=1000', 'from=2025-01-01T00:00:00Z', 'from=2025-01-01t00:00:00.123456z', 'to=2025-01-01T00:00:00%2B01:00', 'unknown=x'])('accepts ?%s', async (query) => {
    expect((await ask(`/uploads?${query}`)).status).toBe(200);
  });
});

describe('a page token', () => {
  /** Four uploads, newest first: one of each kind of each of two customers. */
  let uploads: readonly (Stored & { at: string; kind: string })[];
  let own: string;
  let other: string;
  /** The token of a page of the uploads of all customers that ends with the newest of these uploads. */
  let token: string;
  beforeAll(async () => {
    [own, other] = [newCustomer(), newCustomer()];
    const stored: (Stored & { at: string; kind: string })[] = [];
    for (const [customer, path] of [[own, '/ingestNowcastLoadData/upload_nowcast'], [other, UPLOAD], [own, UPLOAD], [other, '/ingestNowcastLoadData/upload_nowcast']] as const) {
      nextMillisecond();
      const { id } = await store({ customer, path });
      const { received_at: at, kind } = (await (await ask(`/uploads/${id}`)).json()) as { received_at: string; kind: string };
      stored.unshift({ id, customer, at, kind });
    }
    uploads = stored;
    const page = await list({ limit: '1' });
    expect(idsOf(page)).toEqual([stored[0]?.id]);
    token = page.next_page_token ?? '';
  });

  const idsWhere = (isWanted: (upload: (typeof uploads)[number]) => boolean) => uploads.slice(1).filter(isWanted).map(({ id }) => id);

  it('of all customers gives no access to uploads of another customer', async () => {
    await expectError(await ask(`/uploads?page_token=${token}`, { covers: [own] }), 403, 'Unauthorized.');
    await expectError(await ask(`/uploads?page_token=${token}&customer_id=${other}`, { covers: [own] }), 403, 'Unauthorized.');
    expect(idsOf(await list({ page_token: token, customer_id: own }, [own]))).toEqual(idsWhere(({ customer }) => customer === own));
  });

  it('may be used with another customer or kind, and then gives the uploads of that one behind the position', async () => {
    expect(idsOf(await list({ page_token: token, customer_id: other }))).toEqual(idsWhere(({ customer }) => customer === other));
    const historical = await list({ page_token: token, kind: 'historical', limit: '2' });
    expect(idsOf(historical)).toEqual(idsWhere(({ kind }) => kind === 'historical'));
  });

  it('may be used with times beyond its position', async () => {
    const [newest, , middle] = uploads.map(({ at }) => at);
    const all = { page_token: token, customer_id: own };
    expect(idsOf(await list({ ...all, to: '9999-01-01T00:00:00Z' }))).toEqual(idsWhere(({ customer }) => customer === own));
    expect(idsOf(await list({ ...all, to: middle ?? '' }))).toEqual(idsWhere(({ customer, at }) => customer === own && at < (middle ?? '')));
    expect(await list({ ...all, from: newest ?? '' })).toEqual({ uploads: [], next_page_token: null });
    expect(await list({ ...all, from: '9999-01-01T00:00:00Z' })).toEqual({ uploads: [], next_page_token: null });
  });
});

describe('GET /uploads/<upload_id>/content', () => {
  const etag = `"${createHash('sha256').update(BYTES).digest('hex')}"`;

  it('sends the bytes as received, as a download', async () => {
    const { id } = await store({ filename: 'Zürich "1".html', type: 'text/html; charset=utf-8' });
    const answer = await ask(`/uploads/${id}/content`);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(BYTES);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-length': String(BYTES.length),
      'content-disposition': `attachment; filename="Z?rich \\"1\\".html"; filename*=UTF-8''Z%C3%BCrich%20%221%22.html`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': 'sandbox',
      'accept-ranges': 'bytes',
      etag,
      'repr-digest': `sha-256=:${createHash('sha256').update(BYTES).digest('base64')}:`,
    });
  });

  it.each<[string, string, Record<string, string>, number]>([
    ['GET', '', {}, 200],
    ['HEAD', '', {}, 200],
    ['GET', '/content', {}, 200],
    ['GET', '/content', { Range: 'bytes=1-4' }, 206],
    ['GET', '/content', { 'If-None-Match': etag }, 304],
    ['HEAD', '/content', {}, 200],
  ])('lets no browser keep the answer to %s /uploads/<upload_id>%s with %j', async (method, path, headers, status) => {
    const { id } = await store();
    const answer = await ask(`/uploads/${id}${path}`, { method, headers });
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([status, 'no-store']);
    const { headers: ofList } = await ask('/uploads');
    expect(ofList.get('cache-control')).toBe('no-store');
  });

  it.each([
    ['50%41.csv', `filename="50%41.csv"; filename*=UTF-8''50%2541.csv`],
    ['a;b="c".csv', `filename="a;b=\\"c\\".csv"`],
    ['\u202Efdp.exe', `filename="?fdp.exe"; filename*=UTF-8''%E2%80%AEfdp.exe`],
    ['電力 😀.csv', `filename="?? ??.csv"; filename*=UTF-8''%E9%9B%BB%E5%8A%9B%20%F0%9F%98%80.csv`],
  ])('names the download as the file was named: %s', async (filename, parameters) => {
    const { id } = await store({ filename });
    expect((await ask(`/uploads/${id}/content`)).headers.get('content-disposition')).toBe(`attachment; ${parameters}`);
  });

  it.each([
    ['bytes=0-0', 206, 'N', `bytes 0-0/${BYTES.length}`],
    ['bytes=1-4', 206, 'EM12', `bytes 1-4/${BYTES.length}`],
    [`bytes=${BYTES.length - 2}-`, 206, '2 ', `bytes ${BYTES.length - 2}-${BYTES.length - 1}/${BYTES.length}`],
    ['bytes=-3', 206, '12 ', `bytes ${BYTES.length - 3}-${BYTES.length - 1}/${BYTES.length}`],
    [`bytes=${BYTES.length - 1}-99999999999999999999`, 206, ' ', `bytes ${BYTES.length - 1}-${BYTES.length - 1}/${BYTES.length}`],
    ['bytes=-999999', 206, BYTES, `bytes 0-${BYTES.length - 1}/${BYTES.length}`],
    ['bytes=4-1', 200, BYTES, null],
    ['bytes=0-1,3-4', 200, BYTES, null],
    ['bytes=-', 200, BYTES, null],
    ['bytes=1--4', 200, BYTES, null],
    ['bytes=+1-4', 200, BYTES, null],
    ['bytes=0x1-4', 200, BYTES, null],
    ['Bytes=1-4', 206, 'EM12', `bytes 1-4/${BYTES.length}`],
    ['items=0-1', 200, BYTES, null],
  ])('answers Range: %s with %s', async (range, status, bytes, contentRange) => {
    const { id } = await store();
    const answer = await ask(`/uploads/${id}/content`, { headers: { Range: range } });
    expect({ status: answer.status, bytes: await answer.text(), range: answer.headers.get('content-range') }).toEqual({ status, bytes, range: contentRange });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      etag,
      'content-type': 'text/csv',
      'content-length': String(bytes.length),
      'content-disposition': 'attachment; filename="load.csv"',
      'x-content-type-options': 'nosniff',
      'content-security-policy': 'sandbox',
      'repr-digest': `sha-256=:${createHash('sha256').update(BYTES).digest('base64')}:`,
    });
  });

  it.each<[string, Record<string, string>, number]>([
    ['nothing', {}, 200],
    ['Range, which applies to GET only', { Range: 'bytes=1-4' }, 200],
    ['an unsatisfiable Range', { Range: `bytes=${BYTES.length}-` }, 200],
    ['If-None-Match', { 'If-None-Match': etag }, 304],
  ])('answers HEAD with %s like GET without Range, but without the bytes', async (_, headers, status) => {
    const { id } = await store({ filename: 'Zürich.csv' });
    const others = Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'Range'));
    const head = await ask(`/uploads/${id}/content`, { method: 'HEAD', headers });
    const get = await ask(`/uploads/${id}/content`, { headers: others });
    expect({ head: head.status, get: get.status }).toEqual({ head: status, get: status });
    expect(headersOf(head)).toEqual(headersOf(get));
    expect(await head.text()).toBe('');
    await get.body?.cancel();
  });

  it.each(['GET', 'HEAD'])('answers %s with 404 if the file is missing', async (method) => {
    for (const body of [BYTES, '']) {
      const upload = await store({ body });
      await rm(await fileOf(upload));
      for (const headers of [undefined, { Range: 'bytes=0-0', 'If-Range': '"x"' }]) {
        const answer = await ask(`/uploads/${upload.id}/content`, { method, ...(headers && { headers }) });
        expect({ status: answer.status, etag: answer.headers.get('etag'), digest: answer.headers.get('repr-digest') }).toEqual({ status: 404, etag: null, digest: null });
      }
    }
  });

  it.each([`bytes=${BYTES.length}-`, 'bytes=99999999-', `bytes=${'9'.repeat(400)}-`, 'bytes=-0'])('refuses Range: %s', async (range) => {
    const { id } = await store();
    const answer = await ask(`/uploads/${id}/content`, { headers: { Range: range } });
    expect(answer.headers.get('content-range')).toBe(`bytes */${BYTES.length}`);
    await expectError(answer, 416, 'Range not satisfiable.');
  });

  it.each([
    [{ 'If-None-Match': etag }, 304],
    [{ 'If-None-Match': `"x", W/${etag}` }, 304],
    [{ 'If-None-Match': '*' }, 304],
    [{ 'If-None-Match': '"x"' }, 200],
    [{ 'If-None-Match': `"x, ${etag.slice(1)}` }, 200],
    [{ 'If-None-Match': etag.slice(1, -1) }, 200],
    [{ 'If-None-Match': etag, Range: 'bytes=0-0' }, 304],
    [{ 'If-Range': etag, Range: 'bytes=0-0' }, 206],
    [{ 'If-Range': '"x"', Range: 'bytes=0-0' }, 200],
    [{ 'If-Range': `W/${etag}`, Range: 'bytes=0-0' }, 200],
    [{ 'If-Range': 'Sun, 01 Jan 2023 00:00:00 GMT', Range: 'bytes=0-0' }, 200],
    [{ 'If-Range': '"x"', Range: `bytes=${BYTES.length}-` }, 200],
  ])('answers %j with %s', async (headers, status) => {
    const { id } = await store();
    const answer = await ask(`/uploads/${id}/content`, { headers });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('etag')).toBe(etag);
    expect((await answer.text()).length).toBe({ 200: BYTES.length, 206: 1, 304: 0 }[status]);
  });

  it('sends a file of many chunks whole, even to a client that stops reading for a while', async () => {
    const bytes = randomBytes(24 * 1024 * 1024 + 1);
    const { id } = await store({ body: bytes });
    const paused = await ask(`/uploads/${id}/content`);
    const part = await ask(`/uploads/${id}/content`, { headers: { Range: 'bytes=5-20000000' } });
    expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(5, 20_000_001))).toBe(true);
    expect(Buffer.from(await paused.arrayBuffer()).equals(bytes)).toBe(true);
    // Later tests read all files of the data directory.
    expect((await ask(`/uploads/${id}`, { method: 'DELETE' })).status).toBe(204);
  });

  it('sends an empty file, and answers 404 for an upload without a file', async () => {
    const empty = await store({ body: '' });
    const answer = await ask(`/uploads/${empty.id}/content`);
    expect({ status: answer.status, length: answer.headers.get('content-length') }).toEqual({ status: 200, length: '0' });
    for (const range of ['bytes=0-', 'bytes=0-0', 'bytes=-0']) {
      await expectError(await ask(`/uploads/${empty.id}/content`, { headers: { Range: range } }), 416, 'Range not satisfiable.');
    }
    const last = await ask(`/uploads/${empty.id}/content`, { headers: { Range: 'bytes=-5' } });
    expect({ status: last.status, length: last.headers.get('content-length'), range: last.headers.get('content-range') }).toEqual({ status: 200, length: '0', range: null });
    const json = await store({ type: 'application/json', body: '{}' });
    await expectError(await ask(`/uploads/${json.id}/content`), 404, 'Not found.');
  });
});

describe('a download that ends early', () => {
  let directory: string;
  let storage: LocalDiskFileStorage;
  let own: RunningService;
  let upload: Upload;
  /** Whether the file of the upload is open. The service may close it twice. */
  let isOpen = false;
  let onClosed = (): void => undefined;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'load-data-'));
    const disk = new GatedDisk();
    storage = await LocalDiskFileStorage.open({ directory, disk });
    own = await start();
    // The sockets of both sides hold some MiB of the file, but not all of it.
    upload = await storeUpload(storage, anUploadDraft().file(Buffer.alloc(64 * MIB, 'x')).build());
    disk.gate = async (perform, operation, path) => {
      const result = await perform();
      if (!path.includes('/files/')) return result;
      if (operation === 'open') isOpen = true;
      if (operation === 'file.close' && isOpen) {
        isOpen = false;
        onClosed();
      }
      return result;
    };
  });
  afterAll(async () => {
    await own.close();
    await rm(directory, { recursive: true });
  });

  const start = (variables = {}) => startService(variables, (builder) => builder.overrideProvider(FileStorage).useValue(storage));
  const closed = () => new Promise<void>((resolve) => (onClosed = resolve));
  const path = () => join(directory, upload.content?.path ?? '');
  const download = async () => fetch(`${own.url}/uploads/${upload.uploadId}/content`, { headers: { Authorization: `Bearer ${await own.adminToken()}` } });

  /** Begins a download, and reads only its first bytes. */
  async function begin(at = own): Promise<Socket> {
    const client = connect(at.port, '127.0.0.1').on('error', () => undefined);
    client.write(`GET /uploads/${upload.uploadId}/content HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${await at.adminToken()}\r\n\r\n`);
    expect(String(await once(client, 'data')).slice(0, 15)).toBe('HTTP/1.1 200 OK');
    client.pause();
    expect(isOpen).toBe(true);
    return client;
  }

  it('closes the file when the client hangs up', async () => {
    const fileIsClosed = closed();
    (await begin()).resetAndDestroy();
    await fileIsClosed;
  });

  it('breaks the connection of a client that reads nothing for REQUEST_IDLE_TIMEOUT_MS, and closes the file', async () => {
    const impatient = await start({ REQUEST_IDLE_TIMEOUT_MS: '500' });
    const fileIsClosed = closed();
    const client = await begin(impatient);
    await fileIsClosed;
    let bytes = 0;
    client.on('data', (chunk) => (bytes += chunk.length));
    await once(client.resume(), 'close');
    expect(bytes).toBeLessThan(64 * MIB);
    await impatient.close();
  });

  it.each([
    ['breaks the connection', 63 * MIB],
    ['answers 500', 0],
  ])('%s if the file is shorter than its line says', async (_, size) => {
    await truncate(path(), size);
    const fileIsClosed = closed();
    const answer = await download();
    if (size > 0) await expect(answer.arrayBuffer()).rejects.toThrow('terminated');
    else await expectError(answer, 500, 'Internal server error.');
    await fileIsClosed;
  });
});

let editedDays = 0;
/**
 * Adds a line to a data directory, in a segment of its own on a day that has no other uploads. The members that `edit`
 * returns replace those of the line.
 */
async function storeEdited(root: string, edit: (id: string) => Record<string, unknown>): Promise<Stored & { readonly path: string }> {
  const receivedAt = new Date(Date.UTC(2020, 0, ++editedDays, 12));
  const id = uuidAt(receivedAt);
  const customer = newCustomer();
  const date = `date=${receivedAt.toISOString().slice(0, 10)}`;
  const path = `files/kind=historical/customer_id=${customer}/${date}/${id}.csv`;
  const line = {
    upload_id: id, kind: 'historical', customer_id: customer, filename: 'load.csv', manufacturer: 'm', additional_data: '', received_at: receivedAt.toISOString(),
    content_path: path, content_type: 'text/csv', content_size: BYTES.length, content_sha256: 'ab'.repeat(32), ...edit(id),
  };
  const segment = join(root, `uploads/kind=historical/${date}/edited.ndjson`);
  await mkdir(dirname(segment), { recursive: true });
  await appendFile(segment, `${JSON.stringify(line)}\n`);
  return { id, customer, path: join(root, path) };
}

describe('a line whose content_path is not a path for the file of the upload', () => {
  const KEYS = 'identity/signing-keys.json';

  it.each<[string, (id: string) => string, string?]>([
    ['the signing keys', () => KEYS],
    ['the signing keys, in a long line', () => KEYS, 'x'.repeat(100_000)],
    ['the signing keys, by way of files/', (id) => `files/kind=historical/customer_id=c/date=2020-01-01/../../../../${KEYS}?${id}`],
    ['a file outside of the data directory', () => '../../etc/hostname'],
    ['a file of another directory that is named after the upload', (id) => `identity/${id}.csv`],
  ])('counts as one whose file is missing: %s', async (_, contentPathOf, padding = '') => {
    const keys = await readFile(join(service.dataDirectory, KEYS));
    const upload = await storeEdited(service.dataDirectory, (id) => ({ content_path: contentPathOf(id), additional_data: padding }));
    for (const method of ['GET', 'HEAD']) expect((await ask(`/uploads/${upload.id}/content`, { method })).status).toBe(404);
    expect((await ask(`/uploads/${upload.id}`)).status).toBe(200);
    expect((await ask(`/uploads/${upload.id}`, { method: 'DELETE' })).status).toBe(204);
    expect((await ask(`/uploads/${upload.id}`)).status).toBe(404);
    expect(await readFile(join(service.dataDirectory, KEYS))).toEqual(keys);
  });

  it('is removed with all uploads of its customer, and its file is not', async () => {
    const keys = await readFile(join(service.dataDirectory, KEYS));
    const { customer } = await storeEdited(service.dataDirectory, () => ({ content_path: KEYS }));
    const answer = await ask(`/uploads?customer_id=${customer}`, { method: 'DELETE' });
    expect(await answer.json()).toEqual({ status: 'success', deleted: 1 });
    expect(await readFile(join(service.dataDirectory, KEYS))).toEqual(keys);
  });
});

describe('the file of an upload whose line someone has edited', () => {
  let root: string;
  let disk: GatedDisk;
  let own: RunningService;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'load-data-'));
    disk = new GatedDisk();
    const storage = await LocalDiskFileStorage.open({ directory: root, disk });
    own = await startService({}, (builder) => builder.overrideProvider(FileStorage).useValue(storage));
  });
  afterAll(async () => {
    await own.close();
    await rm(root, { recursive: true });
  });

  const NO_TYPE = { status: 200, type: 'application/octet-stream', disposition: 'attachment; filename="load.csv"' };
  const NO_ANSWER = { status: 500, type: 'application/json; charset=utf-8', disposition: null };
  it.each<[string, Record<string, unknown>, typeof NO_TYPE | typeof NO_ANSWER]>([
    ['without a type', { content_type: undefined }, NO_TYPE],
    ['with a line break in its type', { content_type: 'text/csv\r\nSet-Cookie: a=b' }, NO_TYPE],
    ['with a type for which a head has no room', { content_type: `text/${'a'.repeat(16_000)}` }, NO_TYPE],
    ['with a type that is not Latin-1', { content_type: 'text/電' }, NO_TYPE],
    ['with a lone surrogate in its filename', { filename: 'a\ud800.csv' }, { status: 200, type: 'text/csv', disposition: `attachment; filename="a?.csv"; filename*=UTF-8''a%EF%BF%BD.csv` }],
    ['without a filename', { filename: undefined }, { status: 200, type: 'text/csv', disposition: 'attachment' }],
    ['without a size', { content_size: undefined }, NO_ANSWER],
    ['with a negative size', { content_size: -1 }, NO_ANSWER],
    ['with a size that is no number', { content_size: 'abc' }, NO_ANSWER],
    ['with a digest that is no text', { content_sha256: 7 }, NO_ANSWER],
  ])('is answered, and not left open: %s', async (_, edited, expected) => {
    const { id, path: file } = await storeEdited(root, () => edited);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, BYTES);
    let isOpen = false;
    disk.gate = async (perform, operation, path) => {
      const result = await perform();
      if (path === file && operation === 'open') isOpen = true;
      if (path === file && operation === 'file.close') isOpen = false;
      return result;
    };
    const headers = { Authorization: `Bearer ${await own.adminToken()}` };
    for (const method of ['GET', 'HEAD']) {
      const answer = await fetch(`${own.url}/uploads/${id}/content`, { method, headers });
      const text = await answer.text();
      expect({ status: answer.status, type: answer.headers.get('content-type'), disposition: answer.headers.get('content-disposition') }).toEqual(expected);
      if (method === 'GET') expect(text).toBe(answer.status === 200 ? BYTES : '{"error":"Internal server error."}');
      expect(answer.headers.get('content-security-policy') === 'sandbox').toBe(answer.status === 200);
      await vi.waitFor(() => { expect(isOpen).toBe(false); });
    }
  });
});

describe('DELETE', () => {
  it('removes an upload for good', async () => {
    const kept = await store();
    const { id, customer } = await store({ key: 'again' });

    const answer = await ask(`/uploads/${id}`, { method: 'DELETE' });
    expect({ status: answer.status, body: await answer.text() }).toEqual({ status: 204, body: '' });

    await expectError(await ask(`/uploads/${id}`), 404, 'Not found.');
    await expectError(await ask(`/uploads/${id}/content`), 404, 'Not found.');
    await expectError(await ask(`/uploads/${id}`, { method: 'DELETE' }), 404, 'Not found.');
    expect((await service.lines()).map((line) => line.upload_id)).not.toContain(id);
    expect((await service.files('files')).filter((path) => path.includes(id))).toEqual([]);
    expect((await ask(`/uploads/${kept.id}/content`)).status).toBe(200);
    const again = await store({ customer, key: 'again' });
    expect(again.id).not.toBe(id);
  });

  const personal = [
    ['a small file', 'text/csv', 'bytes of Ada, '.repeat(10)],
    ['a large file', 'text/csv', 'bytes of Ada, '.repeat(10_000)],
    ['additional_data', 'application/json', '{"additional_data":"bytes of Ada, "}'],
  ] as const;
  const removals: [string, (upload: Stored) => string, number][] = [
    ['alone', ({ id }) => `/uploads/${id}`, 204],
    ['with all uploads of its customer', ({ customer }) => `/uploads?customer_id=${customer}`, 200],
  ];
  it.each(removals.flatMap(([how, target, status]) => personal.map(([what, type, body]) => ({ what, how, type, body, target, status }))))('leaves nothing of $what in the data directory, removed $how', async ({ type, body, target, status }) => {
    const customer = `Ada-${newCustomer()}`;
    const { id } = await store({ customer, type, body, key: 'key-of-Ada', filename: 'file-of-Ada.csv' });
    const traces = async (): Promise<string[]> => {
      const files = await service.files('');
      const found = await Promise.all(files.map(async (path) => [path, await readFile(path)] as const));
      const isTrace = (path: string, bytes: Buffer): boolean =>
        [id, customer, 'of Ada', 'of-Ada'].some((text) => path.includes(text) || bytes.includes(text)) || bytes.includes(Buffer.from(id.replaceAll('-', ''), 'hex'));
      return found.filter(([path, bytes]) => isTrace(path, bytes)).map(([path]) => path);
    };
    expect(await traces()).not.toEqual([]);
    expect((await ask(target({ id, customer }), { method: 'DELETE' })).status).toBe(status);
    expect(await traces()).toEqual([]);
  });

  it('removes all uploads of a customer, or those before a time', async () => {
    const customer = newCustomer();
    const other = await store();
    await store({ customer });
    const { received_at: at } = (await list({ customer_id: customer })).uploads[0] ?? {};
    nextMillisecond();
    const last = await store({ customer });

    const before = await ask(`/uploads?${new URLSearchParams({ customer_id: customer, before: new Date(Date.parse(String(at)) + 1).toISOString() }).toString()}`, { method: 'DELETE' });
    expect({ status: before.status, body: await before.json() }).toEqual({ status: 200, body: { status: 'success', deleted: 1 } });
    expect(idsOf(await list({ customer_id: customer }))).toEqual([last.id]);

    for (const deleted of [1, 0]) {
      const answer = await ask(`/uploads?customer_id=${customer}`, { method: 'DELETE' });
      expect(await answer.json()).toEqual({ status: 'success', deleted });
    }
    expect((await ask(`/uploads/${other.id}`)).status).toBe(200);
  });

  it.each(['', 'customer_id=', 'customer_id=a&customer_id=b', 'customer_id=a&before=yesterday', 'customer_id=a&before=', 'customer_id=a&kind=nowcast', 'customer_id=a&from=2025-01-01T00:00:00Z', 'customer_id=a&to=2025-01-01T00:00:00Z', 'customer_id=a&limit=1', 'customer_id=a&page_token=x'])('refuses ?%s', async (query) => {
    await expectError(await ask(`/uploads?${query}`, { method: 'DELETE' }), 400, 'Invalid or missing query parameter.');
  });
});

it('ends a removal whose connection is broken, and completes it when it is sent again', async () => {
  const storage = new InMemoryFileStorage();
  const { storedUploads } = storage;
  const removeAll = storedUploads.removeAll.bind(storedUploads);
  const begun = deferred<AbortSignal>();
  const ended = deferred<unknown>();
  storedUploads.removeAll = (filter, options) => {
    const { signal = new AbortController().signal } = options ?? {};
    begun.resolve(signal);
    const removing = once(signal, 'abort').then(() => removeAll(filter, options));
    ended.resolve(removing.catch((error: unknown) => error));
    return removing;
  };
  const own = await startService({}, (builder) => builder.overrideProvider(FileStorage).useValue(storage));
  try {
    for (let count = 0; count < 2; count++) await storeUpload(storage, anUploadDraft().with({ customerId: 'leaving' }).build());
    const authorization = `Bearer ${await own.adminToken()}`;
    // A client that only ends its side of the connection may still read the answer, so the connection is reset.
    const client = connect(own.port, '127.0.0.1');
    client.write(`DELETE /uploads?customer_id=leaving HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`);
    await begun.promise;
    client.resetAndDestroy();
    expect(await ended.promise).toMatchObject({ kind: 'client-aborted' });

    storedUploads.removeAll = removeAll;
    expect(await (await fetch(`${own.url}/uploads?customer_id=leaving`, { method: 'DELETE', headers: { authorization } })).json()).toEqual({ status: 'success', deleted: 2 });
  } finally {
    await own.close();
  }
});

it('completes a removal that failed when it is sent again', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'load-data-'));
  const disk = new GatedDisk();
  const storage = await LocalDiskFileStorage.open({ directory, disk });
  const own = await startService({}, (builder) => builder.overrideProvider(FileStorage).useValue(storage));
  const remove = async (target: string, covers?: string[]) => {
    const authorization = `Bearer ${await own.adminToken(covers)}`;
    return (await fetch(`${own.url}/uploads${target}`, { method: 'DELETE', headers: { authorization } })).status;
  };
  const fail = () => (disk.gate = (perform, operation, path) => (operation === 'remove' && path.includes('/files/') ? Promise.reject(new Error('EIO')) : perform()));
  try {
    const [first, second] = [await storeUpload(storage, anUploadDraft().file('x').build()), await storeUpload(storage, anUploadDraft().file('y').build())];
    fail();
    const one = `/${first.uploadId}`;
    expect([await remove(one), await remove(one), await remove(one, ['another'])]).toEqual([500, 500, 404]);
    disk.gate = (perform) => perform();
    expect([await remove(one), await remove(one)]).toEqual([204, 404]);

    fail();
    const all = `?customer_id=${second.customerId}`;
    expect([await remove(all), await remove(all)]).toEqual([500, 500]);
    disk.gate = (perform) => perform();
    expect([await remove(all), await remove(`/${second.uploadId}`)]).toEqual([200, 404]);
  } finally {
    await own.close();
    await rm(directory, { recursive: true });
  }
});

it("removes no upload of another customer from a store that doesn't look at the customer itself", async () => {
  const storage = new InMemoryFileStorage();
  const { storedUploads } = storage;
  const remove = storedUploads.remove.bind(storedUploads);
  storedUploads.remove = (uploadId) => remove(uploadId);
  const own = await startService({}, (builder) => builder.overrideProvider(FileStorage).useValue(storage));
  try {
    const { uploadId, customerId } = await storeUpload(storage, anUploadDraft().build());
    const statuses: number[] = [];
    for (const covers of ['another', customerId]) {
      const authorization = `Bearer ${await own.adminToken([covers])}`;
      statuses.push((await fetch(`${own.url}/uploads/${uploadId}`, { method: 'DELETE', headers: { authorization } })).status);
    }
    expect(statuses).toEqual([404, 204]);
  } finally {
    await own.close();
  }
});

it('answers 404 if the store does not offer its uploads, and says so at boot', async () => {
  class PlainStorage extends FileStorage {
    private readonly memory = new InMemoryFileStorage();
    override store = this.memory.store.bind(this.memory);
    override checkHealth = this.memory.checkHealth.bind(this.memory);
  }
  const plain = await startService({ RETENTION_DAYS: '30' }, (builder) => builder.overrideProvider(FileStorage).useValue(new PlainStorage()));
  try {
    expect(plain.log.text).toContain('the operations on /uploads answer 404');
    expect(plain.log.text).toContain('RETENTION_DAYS is 30, but');
    const token = await plain.adminToken();
    for (const [method, target] of [['GET', '/uploads'], ['GET', `/uploads/${UNKNOWN}`], ['GET', `/uploads/${UNKNOWN}/content`], ['DELETE', `/uploads/${UNKNOWN}`], ['DELETE', '/uploads?customer_id=a']] as const) {
      await expectError(await fetch(plain.url + target, { method, headers: { Authorization: `Bearer ${token}` } }), 404, 'Not found.');
    }
  } finally {
    await plain.close();
  }
});
