import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { AzureBlobBucket } from '../../src/ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js';
import type { Bucket } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { S3Bucket } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { anUploadDraft, InMemoryBucket } from '../../src/testing/index.js';

const MIB = 1024 * 1024;
const logger = { warn: () => undefined };

type UploadDraftBuilder = ReturnType<typeof anUploadDraft>;
type Request = 'PUT' | 'GET' | 'LIST' | 'DELETE';
type Requests = Readonly<Record<Request, number>>;
const NONE: Requests = { PUT: 0, GET: 0, LIST: 0, DELETE: 0 };
/** The request that S3 gets for each operation; a file is one of one part. */
const REQUESTS: Partial<Record<keyof Bucket, Request>> = { create: 'PUT', replace: 'PUT', upload: 'PUT', read: 'GET', open: 'GET', list: 'LIST', remove: 'DELETE' };

/** Counts the requests to a bucket that `work` causes, also after it has resolved, without those of the background work. */
async function requestsOf(work: (storage: ObjectStorageFileStorage) => Promise<unknown>, bucket = new InMemoryBucket()): Promise<Requests> {
  const requests = { ...NONE };
  const counting = new AsyncLocalStorage<true>();
  bucket.before = (operation) => {
    if (!counting.getStore()) return;
    const request = REQUESTS[operation];
    if (!request) throw new Error(`${operation} isn't counted.`);
    requests[request] += 1;
  };
  const storage = new ObjectStorageFileStorage({ bucket, logger });
  await counting.run(true, () => work(storage));
  await storage.close();
  return requests;
}

const file = (draft: UploadDraftBuilder) => draft.file('the ', 'bytes');
const keyed = (draft: UploadDraftBuilder, number: number) => draft.with({ idempotencyKey: `key-${number}` });

let page: string;
beforeAll(async () => {
  page = await readFile('docs/sizing-replicas.md', 'utf8');
});

/** The cells of a row of the page, without the first. */
function rowOf(name: string): string[] {
  const row = page.split('\n').find((line) => line.startsWith(`| ${name} |`));
  if (row === undefined) throw new Error(`The page has no row ${name}.`);
  return row.split('|').slice(2, -1).map((cell) => cell.trim());
}

/** The numbers with which the cells of a row begin. */
function requestsIn(name: string): Requests {
  const [PUT = NaN, GET = NaN, LIST = NaN, DELETE = NaN] = rowOf(name).map((cell) => Number.parseInt(cell, 10));
  return { PUT, GET, LIST, DELETE };
}

describe('docs/sizing-replicas.md: requests to the bucket', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-03-10T12:00:00Z') });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const UPLOADS: [string, (draft: UploadDraftBuilder, number: number) => UploadDraftBuilder][] = [
    ['without a file and key, one at a time', (draft) => draft],
    ['with a file of one part (S3: 5 MiB, Azure: 4 MiB)', file],
    ['without a file, under an `Idempotency-Key`', keyed],
    ['with a file, under an `Idempotency-Key`', (draft, number) => keyed(file(draft), number)],
  ];
  it.each(UPLOADS)('an upload %s', async (name, build) => {
    const uploads = 3;
    const requests = await requestsOf(async (storage) => {
      for (let number = 0; number < uploads; number++) await storage.store(build(anUploadDraft(), number).build());
    });
    const { PUT, GET, LIST, DELETE } = requestsIn(name);
    expect(requests).toEqual({ PUT: uploads * PUT, GET: uploads * GET, LIST: uploads * LIST, DELETE: uploads * DELETE });
  });

  it('many uploads without a file and key at a time', async () => {
    const [bucket, uploads] = [new InMemoryBucket(), 100];
    const requests = await requestsOf((storage) => Promise.all(Array.from({ length: uploads }, () => storage.store(anUploadDraft().build()))), bucket);
    const segments = bucket.keys.filter((key) => key.startsWith('uploads/')).length;
    const { PUT, ...others } = requestsIn('the same, many at a time');
    expect(requests).toEqual({ ...others, PUT: PUT * segments });
    expect(segments).toBeLessThan(uploads / 10);
  });

  it('a longer file', async () => {
    const [put = '', ...others] = rowOf('a longer file');
    const [, more, moreOnAzure] = /^1 for each part instead of 1 for the file, and (\d+) more on S3 \((\d+) on Azure\)$/.exec(put) ?? [];
    expect(others).toEqual(rowOf('with a file of one part (S3: 5 MiB, Azure: 4 MiB)').slice(1).map((cell) => String(Number.parseInt(cell, 10))));

    let requests = 0;
    const server = createServer((request, response) => {
      requests += 1;
      request.resume().once('end', () => {
        const isAzure = request.headers['x-ms-version'] !== undefined;
        const isBeginning = /[?&]uploads/.test(request.url ?? '');
        response.writeHead(isAzure ? 201 : 200, { etag: '"1"', 'last-modified': new Date().toUTCString() });
        if (isAzure) response.end();
        else response.end(isBeginning ? '<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>' : '<x/>');
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const onRetry = () => { throw new Error('A request was repeated.'); };
    const s3 = new S3Bucket({ bucket: 'load-data', prefix: '', region: 'us-east-1', endpoint, forcePathStyle: true, timeoutMs: 10_000, maxUploadBytes: 1, onRetry, credentials: { accessKeyId: 'id', secretAccessKey: 'secret' } });
    const azure = new AzureBlobBucket({ container: 'load-data', account: { connectionString: `DefaultEndpointsProtocol=http;BlobEndpoint=${endpoint}/account;AccountName=account;AccountKey=a2V5` }, timeoutMs: 10_000, onRetry });
    const counted = async (bucket: Bucket, parts: number, partBytes: number): Promise<number> => {
      requests = 0;
      await bucket.upload('files/a', pieces(parts, partBytes));
      return requests - parts;
    };
    expect(await counted(s3, 3, 5 * MIB)).toBe(Number(more));
    expect(await counted(azure, 3, 4 * MIB)).toBe(Number(moreOnAzure));
    for (const bucket of [s3, azure]) expect(await counted(bucket, 1, 4 * MIB)).toBe(0);
    for (const bucket of [s3, azure]) bucket.close();
    server.closeAllConnections();
    server.close();
  });

  it('no other upload', () => {
    const [, table = ''] = /^\| upload \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(page) ?? [];
    const names = table.trimEnd().split('\n').map((row) => row.split('|')[1]?.trim());
    expect(names.sort()).toEqual([...UPLOADS.map(([name]) => name), 'the same, many at a time', 'a longer file'].sort());
  });

  it('checks of health', async () => {
    const bucket = new InMemoryBucket();
    // The rights are checked with other requests than those to S3.
    bucket.checkRights = () => Promise.resolve();
    const requests = await requestsOf(async (storage) => {
      for (let check = 0; check < 3; check++) await storage.checkHealth();
    }, bucket);
    expect(rowOf('a check of `/health/ready`, or a scrape of `/metrics`')).toEqual([expect.stringMatching(/^1 PUT, at most one a second\. /)]);
    expect(requests).toEqual({ ...NONE, PUT: 1 });
  });

  it('finding an upload, and fetching its file', async () => {
    const bucket = new InMemoryBucket();
    const [row = ''] = rowOf('finding an upload of the current day by its id, or fetching its file; until 23:00 UTC');
    const [, finding, fetching, lists, reads] = (/^(\d+) GET, and (\d+) for the file\. If it has no file or key: (\d+) LIST and about (\d+) GET more$/.exec(row) ?? []).map(Number);
    const withFile = file(anUploadDraft()).build();
    const shared = Array.from({ length: 40 }, () => anUploadDraft().build());
    await requestsOf(async (storage) => {
      for (const draft of [...shared, withFile]) await storage.store(draft);
    }, bucket);

    expect(await requestsOf((storage) => storage.storedUploads.find(withFile.uploadId), bucket)).toEqual({ ...NONE, GET: finding });
    const fetched = await requestsOf(async ({ storedUploads }) => {
      const upload = await storedUploads.find(withFile.uploadId);
      if (upload) expect(await text(Readable.from((await storedUploads.openContent(upload)) ?? []))).toBe('the bytes');
    }, bucket);
    expect(fetched).toEqual({ ...NONE, GET: (finding ?? NaN) + (fetching ?? NaN) });
    expect(await requestsOf((storage) => storage.storedUploads.find(shared[0]?.uploadId ?? ''), bucket)).toEqual({ ...NONE, LIST: lists, GET: (finding ?? NaN) + (reads ?? NaN) });
  });
});

async function* pieces(count: number, bytes: number): AsyncGenerator<Uint8Array> {
  for (let piece = 0; piece < count; piece++) yield await Promise.resolve(Buffer.alloc(bytes));
}
