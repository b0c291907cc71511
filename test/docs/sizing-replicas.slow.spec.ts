import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { HOUR_MS } from '../../src/common/durations.js';
import { MIB } from '../../src/common/sizes.js';
import { AzureBlobBucket } from '../../src/ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js';
import type { Bucket } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { Compactor } from '../../src/ingestion/adapters/out/object-storage/compactor.js';
import { LateSegments } from '../../src/ingestion/adapters/out/object-storage/event-outbox/late-segments.js';
import { LostClaims } from '../../src/ingestion/adapters/out/object-storage/lost-claims.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { Sweeper } from '../../src/ingestion/adapters/out/object-storage/sweeper.js';
import { anUploadDraft, InMemoryBucket } from '../../src/testing/index.js';
import { s3BucketAt } from '../support/s3-bucket-at.js';

const logger = { warn: () => undefined };

type UploadDraftBuilder = ReturnType<typeof anUploadDraft>;
type Request = 'PUT' | 'GET' | 'LIST' | 'DELETE';
type Requests = Readonly<Record<Request, number>>;
const NONE: Requests = { PUT: 0, GET: 0, LIST: 0, DELETE: 0 };
/** The request that S3 gets for each operation; a file is one of one part. */
const REQUESTS: Partial<Record<keyof Bucket, Request>> = { create: 'PUT', replace: 'PUT', upload: 'PUT', read: 'GET', open: 'GET', list: 'LIST', remove: 'DELETE' };

/**
 * Counts the requests to a bucket that `work` causes, even after it has resolved, without those of the background work.
 */
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

const SMALL_FILES = 'files of at most 64 KiB, many at a time';
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

/** How often the comparison of keys and compaction read a segment, by the page. */
function readings(): { readonly each: number; readonly withKey: number; readonly byReplica: number } {
  const [row = ''] = rowOf('one of the replicas, once an hour');
  const [, each = NaN, withKey = NaN, byReplica = NaN] = (/: (\d+) GETs for each segment in all\. With a key up to (\d+) more, and (\d+) for each replica that has a turn, 24 at most\. /.exec(row) ?? []).map(Number);
  return { each, withKey, byReplica };
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

  it('many small files at a time', async () => {
    const [bucket, uploads] = [new InMemoryBucket(), 100];
    const { PUT: each, ...others } = await requestsOf((storage) => Promise.all(Array.from({ length: uploads }, () => storage.store(file(anUploadDraft()).build()))), bucket);
    const segments = bucket.keys.filter((key) => key.startsWith('uploads/')).length;
    const { PUT, GET, LIST, DELETE } = requestsIn(SMALL_FILES);
    const [put = ''] = rowOf(SMALL_FILES);
    expect(put).toBe(`${PUT}: file. 2 for each segment, which they share: marker, segment`);
    expect(each).toBe(uploads * PUT + 2 * segments);
    expect(others).toMatchObject({ GET, LIST });
    expect(others.DELETE).toBeLessThanOrEqual(DELETE * segments);
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
    const s3 = s3BucketAt(server, { onRetry });
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
    expect(names.sort()).toEqual([...UPLOADS.map(([name]) => name), 'the same, many at a time', SMALL_FILES, 'a longer file'].sort());
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
    const [, finding, fetching, lists, azureLists, reads] = (/^(\d+) GET, and (\d+) for the file\. If it has no file or key, or shares its segment: (\d+) LIST \(Azure: up to (\d+)\) and up to (\d+) GET more$/.exec(row) ?? []).map(Number);
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
    const find = (storage: ObjectStorageFileStorage) => storage.storedUploads.find(shared[0]?.uploadId ?? '');
    expect(await requestsOf(find, bucket)).toEqual({ ...NONE, LIST: lists, GET: (finding ?? NaN) + (reads ?? NaN) });
    const { LIST } = await requestsOf(find, Object.assign(bucket, { listAfter: () => undefined }));
    expect(LIST).toBeLessThanOrEqual(azureLists ?? NaN);
    expect(LIST).toBeGreaterThanOrEqual(lists ?? NaN);
  });

  it.each([
    ['half a minute', 30_000],
    ['a fifth of a second', 200],
  ])('the first page of a list, with a segment each %s', async (_, everyMs) => {
    const bucket = new InMemoryBucket();
    const [row = ''] = rowOf('the first page of a list');
    const [, lists, least] = (/^(\d+) LIST \(S3\), and about one GET for each segment that was written later than ten seconds before the oldest upload of the page, at least (\d+) if the day has as many\. /.exec(row) ?? []).map(Number);
    const written: number[] = [];
    await requestsOf(async (storage) => {
      for (let segment = 0; segment < 100; segment++) {
        vi.setSystemTime(Date.now() + everyMs);
        written.push(Date.now());
        await storage.store(anUploadDraft().build());
      }
    }, bucket);
    let oldest = NaN;
    const requests = await requestsOf(async ({ storedUploads }) => {
      const { uploads } = await storedUploads.list({}, 10);
      oldest = uploads.at(-1)?.receivedAt.getTime() ?? NaN;
    }, bucket);
    const reads = written.filter((time) => time >= oldest - 10_000).length;
    expect(requests).toEqual({ ...NONE, LIST: lists, GET: Math.max(reads, least ?? NaN) });
  });
});

describe('docs/sizing-replicas.md: requests of the background work', () => {
  const SEGMENTS = 3;
  /** After this many iterations of the event loop without an operation on the bucket, its turns are over. */
  const QUIET_ITERATIONS = 50;
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** A bucket with some uploads of noon, each with a segment of its own, and the keys of these segments. */
  async function filled(build: (draft: UploadDraftBuilder, number: number) => UploadDraftBuilder) {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-03-10T12:00:00Z') });
    const bucket = new InMemoryBucket();
    await requestsOf(async (storage) => {
      for (let number = 0; number < SEGMENTS; number++) await storage.store(build(anUploadDraft(), number).build());
    }, bucket);
    vi.useRealTimers();
    return { bucket, segments: bucket.keys.filter((key) => key.startsWith('uploads/')) };
  }

  /** How often a bucket's requests read segments with these keys. */
  function readingsOf(bucket: InMemoryBucket, segments: readonly string[]): { count: number } {
    const readings = { count: 0 };
    bucket.before = (operation, key) => {
      if (REQUESTS[operation] === 'GET' && segments.includes(key)) readings.count += 1;
    };
    return readings;
  }

  it.each<[string, number, (draft: UploadDraftBuilder, number: number) => UploadDraftBuilder]>([
    ['without a key', 1, file],
    ['with a key, by one replica', 1, keyed],
    ['with a key, by two replicas', 2, keyed],
  ])('a segment %s is compared and compacted', async (_, replicas, build) => {
    const { bucket, segments } = await filled(build);
    const { each, withKey, byReplica } = readings();
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.parse('2026-03-10T12:20:00Z') });
    // A turn each hour. One is in the first hour after the day after, before segments with a key are merged.
    vi.spyOn(Math, 'random').mockReturnValue(0.5);
    let count = 0;
    for (let replica = 0; replica < replicas; replica++) {
      const own = bucket.another();
      const read = readingsOf(own, segments);
      const compactor = new Compactor(own, new LostClaims(own, new LateSegments(own), logger), logger);
      compactor.start();
      for (let hour = 0; hour < 24 * (replica === replicas - 1 ? 3 : 1); hour++) {
        await vi.advanceTimersByTimeAsync(HOUR_MS);
        for (let before = own.operations, quiet = 0; quiet < QUIET_ITERATIONS; quiet++) {
          await new Promise(setImmediate);
          if (own.operations !== before) [before, quiet] = [own.operations, 0];
        }
      }
      await compactor.close();
      count += read.count;
    }
    expect(bucket.keys.filter((key) => key.startsWith('uploads/'))).toHaveLength(1);
    expect(count).toBe(SEGMENTS * (each + (build === keyed ? withKey + byReplica * replicas : 0)));
  });

  it('the events of a segment are delivered', async () => {
    const [row = ''] = rowOf('event delivery');
    const [, each] = /^(\d+) GET for each segment\. /.exec(row) ?? [];
    const bucket = new InMemoryBucket();
    const delivering = new ObjectStorageFileStorage({ bucket, logger });
    await delivering.eventOutbox.open();
    const uploads = Array.from({ length: SEGMENTS }, () => file(anUploadDraft()).build());
    for (const draft of uploads) await delivering.store(draft);
    const read = readingsOf(bucket, bucket.keys.filter((key) => key.startsWith('uploads/')));
    let delivered = 0;
    while (delivered < SEGMENTS) {
      const batch = await delivering.eventOutbox.next(100);
      delivered += batch?.events.length ?? 0;
      await batch?.confirm();
    }
    expect(read.count).toBe(SEGMENTS * Number(each));
    await delivering.close();
  });

  it('a sweep of each minute', async () => {
    const bucket = new InMemoryBucket();
    expect(rowOf('each replica, once a minute')).toEqual(['1 LIST of `staging/`']);
    expect(await requestsOf(() => new Sweeper(bucket, logger).sweep(), bucket)).toEqual({ ...NONE, LIST: 1 });
  });

  it('the check of the rights in S3, each minute, and the removal of segments', async () => {
    const requests = { HEAD: 0, LIST: 0, removals: 0 };
    const server = createServer((request, response) => {
      if (request.method === 'HEAD') requests.HEAD += 1;
      else if (request.method === 'GET') requests.LIST += 1;
      else requests.removals += 1;
      request.resume().once('end', () => response.end('<x/>'));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const s3 = s3BucketAt(server);
    await s3.checkRights('health-rights');
    const [row = ''] = rowOf('a check of `/health/ready`, or a scrape of `/metrics`');
    expect(row).toContain(`Once a minute also ${requests.LIST} LIST, ${requests.HEAD} HEAD and ${requests.removals} removals`);

    const [compaction = ''] = rowOf('one of the replicas, once an hour');
    const [, removals = NaN, segments = NaN] = (/ (\d+) removal for ([\d,]+) segments \(S3\)$/.exec(compaction) ?? []).map((text) => Number(text.replaceAll(',', '')));
    requests.removals = 0;
    await s3.remove(Array.from({ length: 2 * segments }, (_, number) => `uploads/${number}`));
    expect(requests.removals).toBe(2 * removals);
    s3.close();
    server.closeAllConnections();
    server.close();
  });
});

describe('docs/sizing-replicas.md: the model', () => {
  /** The machine on which the page's figures were measured. */
  const CORES = 2;
  interface Measured {
    readonly rate: number;
    readonly put: number;
    readonly service: number;
    readonly nginx: number;
    readonly store: number;
    readonly client: number;
  }
  const count = (value: number) => value.toLocaleString('en');
  const titleOf = (work: string, replicas: number | string) => `${work}, ${replicas}`;
  const numbers = (cells: readonly string[]): number[] => cells.map((cell) => Number(/[\d,.]*\d/.exec(cell)?.[0].replaceAll(',', '')));
  /** The rows of the page whose second cell is a number of replicas, as cells. */
  const rowsOfReplicas = (columns: number): string[][] =>
    page.split('\n').map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim())).filter((cells) => cells.length === columns && /^[124]$/.test(cells[1] ?? ''));
  const measured = (): Map<string, Measured> =>
    new Map(rowsOfReplicas(9).map(([work = '', replicas = '', ...cells]) => {
      const [rate = NaN, put = NaN, , service = NaN, nginx = NaN, store = NaN, client = NaN] = numbers(cells);
      return [titleOf(work, replicas), { rate, put, service, nginx, store, client }];
    }));

  it('says how the rates change with more replicas on the same cores', () => {
    const times = measured();
    const figures = (work: string, figure: 'rate' | 'put') => [1, 2, 4].map((replicas) => times.get(titleOf(work, replicas))?.[figure] ?? NaN) as [number, number, number];
    expect(page).toContain('Of small JSON and of files, two replicas carry less than one, and four carry less than two: each replica gets fewer of the connections, so fewer uploads share a segment, and each upload causes more PUTs. Under a key, more replicas carry no more.');
    const [alone, ...more] = figures('4 KiB files under a key', 'rate');
    for (const rate of more) expect(rate).toBeLessThanOrEqual(alone);
    for (const work of ['small JSON', '4 KiB files']) {
      const [rates, puts] = [figures(work, 'rate'), figures(work, 'put')];
      expect(rates).toEqual([...rates].sort((one, other) => other - one));
      expect(puts).toEqual([...puts].sort((one, other) => one - other));
    }
  });

  it('predicts what it says from the measured times, and misses the measured rates by as much as it says', () => {
    const times = measured();
    const predicted = rowsOfReplicas(4);
    expect(predicted).toHaveLength(9);
    expect(predicted.map(([work = '', replicas = '']) => titleOf(work, replicas))).toEqual([...times.keys()]);
    const percentIn = (sentence: string) => Number(new RegExp(sentence.replace('…', '(\\d+)'), 'i').exec(page)?.[1]);
    const above: { readonly work: string; readonly percent: number }[] = [];
    for (const [work = '', replicas = '', model = '', rate] of predicted) {
      const title = titleOf(work, replicas);
      const { service, nginx, store, client, rate: measuredRate } = times.get(title) ?? { service: NaN, nginx: NaN, store: NaN, client: NaN, rate: NaN };
      const [itsCore, allCores] = [(Number(replicas) * 1000) / service, (CORES * 1000) / (service + nginx + store + client)];
      expect([title, model]).toEqual([title, itsCore < allCores ? `${Math.round(itsCore)} (its core)` : `${Math.round(allCores)} (two cores)`]);
      expect([title, Number(rate)]).toEqual([title, measuredRate]);
      above.push({ work, percent: 100 * (measuredRate / Math.min(itsCore, allCores) - 1) });
    }
    const percentsOf = (isWanted: (work: string) => boolean) => above.filter(({ work }) => isWanted(work)).map(({ percent }) => percent);
    for (const [name, isWanted] of [['files are', (work) => work !== 'small JSON'], ['small JSON is', (work) => work === 'small JSON']] satisfies [string, (work: string) => boolean][]) {
      const percents = percentsOf(isWanted);
      expect([name, Math.ceil(-Math.min(...percents)), Math.ceil(Math.max(...percents))]).toEqual([name, percentIn(`${name} up to … % below it`), percentIn(`${name} up to … % above it`)]);
    }
  });

  it('limits the PUTs of replicas whose requests are delayed: no measured rate is above the limit, and two replicas reach about twice as many', () => {
    const rows = [...page.matchAll(/^\| (\d) \| (\d+) ms \| (\d+) \| (\d+) \(/gm)].map((row) => row.slice(1).map(Number));
    expect(rows).toHaveLength(4);
    for (const [replicas = NaN, delayMs = NaN, limit, rate] of rows) {
      expect(limit).toBe((replicas * 4 * 1000) / delayMs);
      expect(rate).toBeLessThanOrEqual(limit ?? NaN);
      const [, , , ofOne = NaN] = rows.find(([number, delay]) => number === 1 && delay === delayMs) ?? [];
      expect((rate ?? NaN) / ofOne / replicas).toBeCloseTo(1, 1);
    }
  });

  it('says what 16 and 64 replicas would do, and when a limit is reached', () => {
    const [files, json] = ['4 KiB files, by the processors', 'small JSON, by the processors'].map((name) => numbers(rowOf(name))[0] ?? NaN) as [number, number];
    const { 'small JSON, 1': oneJson, '4 KiB files, 1': oneFile } = Object.fromEntries(measured());
    // To two digits: what one replica carried.
    for (const [rate, one] of [[files, oneFile], [json, oneJson]] as const) expect(rate).toBe(Number(one?.rate.toPrecision(2)));
    const alone = (one?: Measured) => count(Math.round(1000 / (one?.service ?? NaN) / 10) * 10);
    expect(page).toContain(`a core of its own allows up to ${alone(oneFile)} files and ${alone(oneJson)} small JSON a second`);
    // A marker and a segment, which are written, and the marker's removal, for all that share them.
    const shared = ((oneFile?.put ?? NaN) - requestsIn(SMALL_FILES).PUT) / 2;
    const [partition = NaN, account = NaN] = (/at least ([\d,]+) writes .* an Azure account ([\d,]+) requests/.exec(page) ?? []).slice(1).map((text) => Number(text.replaceAll(',', '')));
    const ofEach = { writes: 1 + 3 * shared, staged: 2 * shared };
    const [writes, staged] = [files * ofEach.writes, files * ofEach.staged];
    const puts = 4 / 0.02;
    const cells = (one: number, unit: string, digits = 0) => [1, 16, 64].map((replicas) => `${count(Number((replicas * one).toFixed(digits)))}${unit}`);
    const nginx = (rate: number, time = NaN) => (rate * time) / 1000;
    expect(rowOf('their writes to the bucket')).toEqual([...cells(writes, '/s'), `S3, one partition: ${Math.ceil(partition / writes)} replicas, ${count(Math.round(partition / ofEach.writes))} uploads/s. Azure: ${Math.ceil(account / writes)} replicas, ${count(Math.round(account / ofEach.writes))} uploads/s`]);
    const underKey = requestsIn('with a file, under an `Idempotency-Key`');
    expect(underKey.PUT + underKey.DELETE).toBe(5);
    expect(page).toContain(`each takes five writes, so one partition carries ${count(partition / 5)} of them a second`);
    expect(rowOf('of these, in `staging/`')).toEqual([...cells(staged, '/s'), expect.stringMatching(new RegExp(`: ${Math.ceil(partition / files)} replicas, ${count(partition)} uploads/s, because of \`files/\`$`))]);
    expect(rowOf('Keycloak: checks of `/health/ready` every five seconds').slice(0, 3)).toEqual(cells(1 / 5, '/s', 1));
    expect(rowOf('their PUTs')).toEqual([...cells(puts, '/s'), `S3, one partition: ${Math.ceil(partition / puts)} replicas`]);
    for (const [name, rate, one] of [['nginx, small JSON', json, oneJson], ['nginx, 4 KiB files', files, oneFile]] as const) {
      const [first = NaN, ...more] = numbers(rowOf(name).slice(0, 3));
      expect(first).toBeCloseTo(nginx(rate, one?.nginx), 2);
      expect(more).toEqual([16, 64].map((replicas) => Number((replicas * nginx(rate, one?.nginx)).toFixed(1))));
      expect(rowOf(name)[3]).toBe(`one core: ${Math.ceil(1 / nginx(rate, one?.nginx))} replicas`);
    }
    // With files, the bucket is first. With small JSON, nginx is.
    const reachedAt = (name: string) => Number(/(\d+) replicas/.exec(rowOf(name)[3] ?? '')?.[1]);
    expect(reachedAt('their writes to the bucket')).toBeLessThan(reachedAt('nginx, 4 KiB files'));
    expect(reachedAt('nginx, small JSON')).toBeLessThan(reachedAt('their PUTs'));
  });

  it('derives the limit of create-user from the processor times that docs/keycloak.md has', async () => {
    const times = /one create-user took ([\d.]+) ms of Keycloak's processor time and ([\d.]+) ms of the service's/.exec(await readFile('docs/keycloak.md', 'utf8')) ?? [];
    const [limit, ofReplica] = times.slice(1).map((milliseconds) => Number((1000 / Number(milliseconds)).toPrecision(2))) as [number, number];
    const cells = [1, 16, 64].map((replicas) => `${count(replicas * ofReplica)}/s`);
    expect(rowOf('create-user with a role, by the processors')).toEqual([...cells, `Keycloak, one core: 1 replica, ${count(limit)}/s`]);
  });

  it('gives a pod of the Helm chart the CPU of as many uploads as its README says', async () => {
    const [values, readme] = await Promise.all(['values.yaml', 'README.md'].map((file) => readFile(`deploy/helm/load-data-service/${file}`, 'utf8')));
    const [, cpu] = /^resources:\n {2}requests: \{ cpu: (\d+)m,/m.exec(values ?? '') ?? [];
    const { 'small JSON, 1': json, '4 KiB files, 1': file } = Object.fromEntries(measured());
    const rate = (service = NaN) => Number(cpu) / service;
    expect(readme).toContain(`${cpu}m CPU is what [about ${count(Math.round(rate(json?.service) / 100) * 100)} small JSON uploads a second](../../../docs/sizing-replicas.md#what-was-measured) take, or ${Math.round(rate(file?.service))} files of 4 KiB.`);
  });

  it.each([
    // `own`: how many of the PUTs an upload doesn't share.
    { title: '4 KiB files, one at a time', upload: 'with a file of one part (S3: 5 MiB, Azure: 4 MiB)', own: 1, inSegment: 1 },
    { title: '4 KiB files, ten in a segment', upload: 'with a file of one part (S3: 5 MiB, Azure: 4 MiB)', own: 1, inSegment: 10 },
    { title: '4 KiB files under a key', upload: 'with a file, under an `Idempotency-Key`', own: 0, inSegment: 1 },
    { title: 'small JSON, one at a time', upload: 'without a file and key, one at a time', own: 0, inSegment: 1 },
    { title: 'small JSON, ten in a segment', upload: 'without a file and key, one at a time', own: 0, inSegment: 10 },
  ])('multiplies the requests of an upload for a million $title', ({ title, upload, own, inSegment }) => {
    const { each, withKey, byReplica } = readings();
    const isKeyed = title.endsWith('under a key');
    const table = page.slice(page.indexOf('## What a million uploads cost'));
    const [, row = ''] = new RegExp(`^\\| ${title} \\| (.*) \\|$`, 'm').exec(table) ?? [];
    // In thousands on S3, in ten thousands on Azure.
    const [writes, reads] = [1_000 * own + (1_000 * (requestsIn(upload).PUT - own)) / inSegment, ((each + (isKeyed ? withKey : 0)) * 1_000) / inSegment];
    expect(numbers(row.split('|'))).toEqual([writes, reads, writes / 10, reads / 10]);
    const more = [...row.matchAll(/, and ([\d,]+) for each replica/g)].map(([, number = '']) => Number(number.replaceAll(',', '')));
    expect(more).toEqual(isKeyed ? [byReplica * 1_000, byReplica * 100] : []);
  });

  it('computes the costs of its example', () => {
    const [put = NaN, get = NaN] = (/\$([\d.]+) for 1,000 PUT or LIST and \$([\d.]+) for 1,000 GET/.exec(page) ?? []).slice(1).map(Number);
    const costOf = (name: string): string => {
      const [puts = NaN, gets = NaN] = numbers(rowOf(name).slice(0, 2));
      return `${count(puts)} × $${put} + ${count(gets)} × $${get} = $${(puts * put + gets * get).toFixed(2)}`;
    };
    expect(page).toContain(`a million files of 4 KiB, one at a time, cost ${costOf('4 KiB files, one at a time')}, and ten in a segment ${costOf('4 KiB files, ten in a segment')}.`);
    const checks = (seconds: number) => (30 * 24 * 3600) / seconds;
    expect(page).toContain(`For each replica, checks of health every five seconds cost ${count(checks(5))} PUT a month, $${((checks(5) / 1000) * put).toFixed(2)}.`);
    const [sweeps = NaN] = numbers(rowOf('each replica, once a minute'));
    const [, ofRights] = /Once a minute also (\d+) LIST/.exec(page) ?? [];
    const lists = checks(60) * (sweeps + Number(ofRights));
    expect(page).toContain(`Each minute, a replica also sends ${sweeps} LIST for \`staging/\` and ${ofRights} with the checks of health, ${count(lists)} a month, $${((lists / 1000) * put).toFixed(2)}.`);
    expect(page).toContain(`checks each second: up to ${count(checks(1))} PUT, $${((checks(1) / 1000) * put).toFixed(2)}.`);
  });
});

async function* pieces(count: number, bytes: number): AsyncGenerator<Uint8Array> {
  for (let piece = 0; piece < count; piece++) yield await Promise.resolve(Buffer.alloc(bytes));
}
