import { once } from 'node:events';
import { openAsBlob } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ClientOptions, DigestMismatchError, LoadDataClient, LoadDataError, type Progress, type UploadRequest } from '../../src/client/index.js';
import { type RunningService, startService } from '../support/service.js';

/** Bytes of a file that aren't valid text in any encoding. */
const BYTES = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256);
const PARAMETERS = { customerId: 'acme energy', filename: 'Last gänge.csv', manufacturer: 'Landis+Gyr' };
const ADDITIONAL = 'meter 7, "Süd"';

let service: RunningService;
let client: LoadDataClient;
beforeAll(async () => {
  service = await startService({ INGESTION_AUTH: 'required' });
  client = new LoadDataClient({ baseUrl: `${service.url}/`, token: () => service.adminToken() });
});
afterAll(() => service.close());

let known: ReadonlySet<unknown>;
beforeEach(async () => {
  known = new Set((await service.lines()).map((line) => line.upload_id));
});

/** The index lines of the uploads that were stored since the test began. */
const added = async () => (await service.lines()).filter((line) => !known.has(line.upload_id));

async function expectStored(bytes: Uint8Array | null, line: object = {}): Promise<void> {
  const lines = await added();
  expect(lines).toMatchObject([{ customer_id: 'acme energy', filename: 'Last gänge.csv', manufacturer: 'Landis+Gyr', ...line }]);
  const path = lines[0]?.content_path;
  const stored = typeof path === 'string' ? await readFile(join(service.dataDirectory, path)) : null;
  expect(bytes === null ? stored === null : stored?.equals(bytes)).toBe(true);
}

// `toEqual` compares bytes one by one, which takes seconds.
const expectBytes = async (answer: Response, bytes: Uint8Array): Promise<void> => {
  expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
};

const stream = (): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (let at = 0; at < BYTES.length; at += 70_000) controller.enqueue(BYTES.subarray(at, at + 70_000));
      controller.close();
    },
  });

type Trouble = (send: () => Promise<Response>) => Promise<Response>;
/**
 * A client whose `fetch` fails in some way for its first requests: each of these troubles replaces one request, in this
 * order.
 */
function troubled(...troubles: Trouble[]): { client: LoadDataClient; sent: RequestInit[]; options: ClientOptions } {
  const sent: RequestInit[] = [];
  const troubledFetch = (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    sent.push(init);
    const send = () => fetch(input, init);
    return troubles.shift()?.(send) ?? send();
  };
  const options = { baseUrl: service.url, token: () => service.adminToken(), fetch: troubledFetch };
  return { client: new LoadDataClient(options), sent, options };
}
const refusedWith = (status: number, headers: Record<string, string> = { 'Retry-After': '0' }) => () => Promise.resolve(new Response('{"error":"Later."}', { status, headers }));
const brokenBefore = () => Promise.reject(new TypeError('fetch failed'));
const brokenAfter = async (send: () => Promise<Response>) => {
  await (await send()).text();
  throw new TypeError('fetch failed');
};

describe('LoadDataClient uploads', () => {
  it.each<[string, Partial<UploadRequest>, object]>([
    ['a Blob', { file: new Blob([BYTES], { type: 'text/csv' }) }, { content_type: 'text/csv' }],
    ['bytes', { file: BYTES }, { content_type: 'application/octet-stream' }],
    ['bytes of a type', { file: BYTES, contentType: 'text/csv; charset=UTF-8' }, { content_type: 'text/csv; charset=UTF-8' }],
    ['a function that opens a stream', { file: stream }, { content_type: 'application/octet-stream' }],
    ['a Blob with data beside it', { file: new Blob([BYTES]), additionalData: ADDITIONAL, contentType: 'text/csv' }, { content_type: 'text/csv', additional_data: ADDITIONAL }],
    ['bytes with data of several lines beside them', { file: BYTES, additionalData: '{\n  "meter": 7\r}\r\n' }, { additional_data: '{\n  "meter": 7\r}\r\n' }],
    ['a stream with data beside it', { file: stream, additionalData: ADDITIONAL }, { additional_data: ADDITIONAL }],
  ])('%s', async (_, request, line) => {
    const receipt = await client.uploadHistorical({ ...PARAMETERS, ...request });
    expect(receipt).toMatchObject({ digest: expect.stringMatching(/^sha-256=:/) as string, replayed: false });
    await expectStored(BYTES, { kind: 'historical', upload_id: receipt.uploadId, ...line });
  });

  it.each([
    ['{}', 'application/json'],
    ['{"additional_data":"not this"}', 'application/json; charset=utf-8'],
    ['[1,2]', 'application/json'],
    ['a=b', 'application/x-www-form-urlencoded'],
    ['--b--', 'multipart/form-data; boundary=b'],
  ])('%s of the type %s, as the file', async (text, type) => {
    await client.uploadHistorical({ ...PARAMETERS, file: new Blob([text], { type }) });
    await expectStored(Buffer.from(text), { additional_data: null });
  });

  it('a stream', async () => {
    await client.uploadNowcast({ ...PARAMETERS, file: stream() });
    await expectStored(BYTES, { kind: 'nowcast' });
  });

  it('text, as UTF-8', async () => {
    await client.uploadNowcast({ ...PARAMETERS, file: 'Zähler;1\n' });
    await expectStored(Buffer.from('Zähler;1\n'));
  });

  it('data without a file', async () => {
    expect(await client.uploadHistorical({ ...PARAMETERS, additionalData: ADDITIONAL })).toMatchObject({ digest: undefined, replayed: false });
    await expectStored(null, { additional_data: ADDITIONAL });
  });

  it.each<[string, Partial<UploadRequest>, number | undefined]>([
    ['a Blob', { file: new Blob([BYTES]) }, BYTES.length],
    ['a form', { file: new Blob([BYTES]), additionalData: ADDITIONAL }, BYTES.length],
    ['a stream', { file: stream }, undefined],
  ])('%s with progress', async (_, request, total) => {
    const sent: number[] = [];
    const onProgress = (progress: Progress): void => {
      sent.push(progress.sent);
      expect(progress.total).toBe(total);
    };
    await client.uploadHistorical({ ...PARAMETERS, ...request, onProgress });
    expect(sent.at(-1)).toBe(BYTES.length);
    expect(sent).toEqual(sent.toSorted((one, other) => one - other));
    await expectStored(BYTES);
  });

  it('sends the digest of what can be read again, and a key', async () => {
    const { client: watched, sent } = troubled();
    const { digest } = await watched.uploadHistorical({ ...PARAMETERS, file: BYTES });
    expect(sent[0]?.headers).toMatchObject({ 'X-Upload-Digest': digest, 'Idempotency-Key': expect.stringMatching(/^[0-9a-f]{32}$/) as string });
  });
});

describe('LoadDataClient repeats', () => {
  it.each([
    ['the connection breaks before the request', brokenBefore, false],
    ['the answer is lost', brokenAfter, true],
    ['the service is unavailable', refusedWith(503), false],
    ['too many requests were sent', refusedWith(429), false],
    ['the first request is in progress', refusedWith(409), false],
    ['a proxy finds no service', refusedWith(502, {}), false],
  ])('an upload if %s, and stores it once', async (_, trouble, replayed) => {
    for (const request of [{ file: new Blob([BYTES]) }, { file: stream }, { additionalData: ADDITIONAL }]) {
      const { client: patient, sent } = troubled(trouble);
      known = new Set((await service.lines()).map((line) => line.upload_id));
      expect(await patient.uploadHistorical({ ...PARAMETERS, ...request })).toMatchObject({ replayed });
      expect(sent).toHaveLength(2);
      expect(await added()).toHaveLength(1);
    }
  });

  it('a request for a file', async () => {
    const { uploadId } = await client.uploadHistorical({ ...PARAMETERS, file: BYTES });
    const { client: patient, sent } = troubled(brokenBefore, refusedWith(503));
    await expectBytes(await patient.downloadUpload(uploadId), BYTES);
    expect(sent).toHaveLength(3);
  });

  it('no upload of a stream that was read', async () => {
    const { client: once } = troubled(brokenBefore);
    await expect(once.uploadHistorical({ ...PARAMETERS, file: stream() })).rejects.toThrow('fetch failed');
    expect(await added()).toEqual([]);
  });

  it('an upload until another request under its key has ended, however few attempts it has', async () => {
    const query = new URLSearchParams({ customer_id: PARAMETERS.customerId, filename: 'first', manufacturer: 'm' }).toString();
    const headers = { 'Idempotency-Key': 'held', Authorization: `Bearer ${await service.adminToken()}`, Expect: '100-continue' };
    const first = request(`${service.url}/ingestHistoricalLoadData/upload_historical?${query}`, { method: 'POST', headers });
    first.on('error', () => undefined).flushHeaders();
    await once(first, 'continue');
    const { options, sent } = troubled(async (send) => {
      const answer = await send();
      expect(answer.status).toBe(409);
      first.destroy();
      return answer;
    });
    await new LoadDataClient({ ...options, attempts: 1 }).uploadHistorical({ ...PARAMETERS, idempotencyKey: 'held', file: BYTES });
    expect(sent.length).toBeGreaterThan(1);
    await expectStored(BYTES);
  });

  it.each<[string, Partial<ClientOptions>, UploadRequest['file'], string]>([
    ['longer than it may wait', { inProgressTimeoutMs: 60_000 }, BYTES, '61'],
    ['for a stream that was read', {}, stream(), '0'],
  ])('no upload %s for another request under its key', async (_, limits, file, retryAfter) => {
    const { options, sent } = troubled(refusedWith(409, { 'Retry-After': retryAfter }));
    await expect(new LoadDataClient({ ...options, ...limits }).uploadHistorical({ ...PARAMETERS, ...(file !== undefined && { file }) })).rejects.toMatchObject({ status: 409 });
    expect(sent).toHaveLength(1);
  });

  const failing = (error: Error) => () =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(BYTES.subarray(0, 1_000));
        controller.error(error);
      },
    });
  const ownError = new TypeError('of the caller');
  it.each<[string, Partial<UploadRequest>, number]>([
    ['whose stream fails', { file: failing(ownError) }, 1],
    ['whose stream, in a form, fails', { file: failing(ownError), additionalData: ADDITIONAL }, 0],
    ['whose stream cannot be opened', { file: () => { throw ownError; } }, 0],
    ['whose progress cannot be shown', { file: BYTES, onProgress: () => { throw ownError; } }, 1],
  ])('no upload %s, and rejects with that error', async (_, upload, requests) => {
    const { client: once, sent } = troubled();
    await expect(once.uploadHistorical({ ...PARAMETERS, ...upload })).rejects.toBe(ownError);
    expect(sent).toHaveLength(requests);
    expect(await added()).toEqual([]);
  });

  it('no upload of a stream that has no bytes', async () => {
    const { client: once, sent } = troubled();
    const text = () => new ReadableStream({ start: (controller) => { controller.enqueue('text'); } });
    await expect(once.uploadHistorical({ ...PARAMETERS, file: text })).rejects.toThrow(/Uint8Array/);
    expect(sent).toHaveLength(1);
  });

  it('no upload of a file that was changed meanwhile', async () => {
    const path = join(service.dataDirectory, 'changed.csv');
    await writeFile(path, 'as it was');
    const { client: once, sent } = troubled(async (send) => {
      await writeFile(path, 'as it is now');
      return send();
    });
    await expect(once.uploadHistorical({ ...PARAMETERS, file: await openAsBlob(path) })).rejects.toMatchObject({ name: 'NotReadableError' });
    expect(sent).toHaveLength(1);
    expect(await added()).toEqual([]);
  });

  it('nothing that was refused', async () => {
    const { client: refused, sent } = troubled();
    await expect(refused.uploadHistorical({ ...PARAMETERS, customerId: '', file: BYTES })).rejects.toMatchObject({ status: 400, error: 'Invalid or missing query parameter.' });
    expect(sent).toHaveLength(1);
  });

  it('no creation', async () => {
    const { client: once, sent } = troubled(brokenAfter);
    await expect(once.createRole({ role_name: 'lost', permissions: ['read:users'] })).rejects.toThrow('fetch failed');
    expect(sent).toHaveLength(1);
  });

  it('at most as often as configured', async () => {
    const refusals = Array.from({ length: 3 }, () => refusedWith(503));
    const { client: patient } = troubled(...refusals);
    const impatient = new LoadDataClient({ baseUrl: service.url, attempts: 2, fetch: refusals[0] });
    await expect(impatient.listRoles()).rejects.toMatchObject({ status: 503 });
    await expect(patient.listRoles()).resolves.toBeInstanceOf(Array);
  });

  it('nothing once the signal aborts', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const { client: patient, sent } = troubled(() => {
      controller.abort(reason);
      return refusedWith(503, { 'Retry-After': '60' })();
    });
    await expect(patient.uploadHistorical({ ...PARAMETERS, file: BYTES, signal: controller.signal })).rejects.toBe(reason);
    expect(sent).toHaveLength(1);
    await expect(client.uploadHistorical({ ...PARAMETERS, file: stream(), signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(await added()).toEqual([]);
  });
});

describe('LoadDataClient reports', () => {
  it("the service's own words, and the id of the request", async () => {
    const error: unknown = await new LoadDataClient({ baseUrl: service.url }).listUsers().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LoadDataError);
    expect(error).toMatchObject({ status: 403, error: 'Unauthorized.', requestId: expect.stringMatching(/./) as string, message: expect.stringMatching(/^403 Unauthorized\. \(request .+\)$/) as string });
  });

  it('a refusal by something else', async () => {
    const { client: proxied } = troubled(() => Promise.resolve(new Response('<h1>Forbidden</h1>', { status: 403 })));
    await expect(proxied.listUsers()).rejects.toMatchObject({ status: 403, error: '', requestId: undefined });
  });

  it.each<[string, (client: LoadDataClient) => Promise<unknown>]>([
    ['an upload', (each) => each.uploadHistorical({ ...PARAMETERS, file: BYTES })],
    ['a removal', (each) => each.deleteUpload('0195e6f0-0000-7000-8000-000000000000')],
  ])('that something else answered %s with 200', async (_, call) => {
    const page = () => Promise.resolve(new Response('<html>Log in', { headers: { 'Content-Type': 'text/html' } }));
    await expect(call(troubled(page).client)).rejects.toMatchObject({ name: 'LoadDataError', status: 200 });
    expect(await added()).toEqual([]);
  });

  it('that other bytes of a stream were stored', async () => {
    const { client: changed } = troubled(async (send) => {
      const answer = await send();
      return new Response(await answer.text(), { headers: { 'X-Upload-Id': 'u', 'X-Upload-Digest': 'sha-256=:AAAA:' } });
    });
    await expect(changed.uploadHistorical({ ...PARAMETERS, file: stream() })).rejects.toThrow(DigestMismatchError);
  });
});

describe('LoadDataClient', () => {
  it('manages roles and users', async () => {
    const role_id = await client.createRole({ role_name: 'Auditor', permissions: ['read:users'] });
    const user_id = await client.createUser({ email: 'ada@grid.example', name: 'Ada', roles: [] });
    await client.assignRole({ user_id, role_id });
    await client.updateUser({ user_id, new_name: 'Ada L.' });
    expect(await client.listRoles()).toContainEqual({ role_id, name: 'Auditor' });
    expect(await client.listUsers()).toContainEqual({ user_id, name: 'Ada L.', email: 'ada@grid.example' });
  });

  it('finds, fetches and removes uploads', async () => {
    const customerId = 'customer of this test';
    const { uploadId } = await client.uploadHistorical({ ...PARAMETERS, customerId, file: BYTES });
    await client.uploadNowcast({ ...PARAMETERS, customerId, additionalData: ADDITIONAL });
    const first = await client.listUploads({ customer_id: customerId, limit: 1 });
    expect(first).toMatchObject({ uploads: [{ kind: 'nowcast' }], next_page_token: expect.any(String) as string });
    const second = await client.listUploads({ customer_id: customerId, limit: 1, page_token: first.next_page_token ?? '' });
    expect(second.uploads).toEqual([await client.findUpload(uploadId)]);
    await expectBytes(await client.downloadUpload(uploadId), BYTES);
    await expectBytes(await client.downloadUpload(uploadId, { range: '7-9' }), BYTES.subarray(7, 10));
    await client.deleteUpload(uploadId);
    await expect(client.downloadUpload(uploadId)).rejects.toMatchObject({ status: 404, error: 'Not found.' });
    expect(await client.deleteUploads({ customer_id: customerId })).toBe(1);
  });
});
