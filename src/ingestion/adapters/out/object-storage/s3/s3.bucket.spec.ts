import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import zlib from 'node:zlib';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { s3BucketAt } from '../../../../../../test/support/s3-bucket-at.js';
import { processMemory } from '../../../../../common/memory-budget.js';
import { MIB } from '../../../../../common/sizes.js';
import { StoreSilentError } from '../bucket.js';
import type { S3Bucket, S3BucketOptions } from './s3.bucket.js';

const DATE = 'Fri, 01 Jan 2010 00:01:30 GMT';
const LAST_MODIFIED = 'Fri, 01 Jan 2010 00:00:00 GMT';
const LISTING = `<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult><Contents><Key>data/a</Key><LastModified>2010-01-01T00:00:00.000Z</LastModified><Size>5</Size></Contents></ListBucketResult>`;

/** Behaviour of `S3Bucket` that the servers of the bucket contract (`test/integration`) can't be made to show. */
describe('S3Bucket', () => {
  let server: Server;
  let bucket: S3Bucket;
  let retries: number;
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
    bucket.close();
    server.close();
  });

  const open = async (answer: (...exchange: Parameters<RequestListener>) => unknown, options: Partial<S3BucketOptions> = {}) => {
    server = createServer((request, response) => void answer(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    retries = 0;
    bucket = s3BucketAt(server, { prefix: '/data/', onRetry: () => { retries += 1; }, ...options });
  };

  it('also limits the time for credentials before it sends a long object', async () => {
    let hang = false;
    const credentials = () => (hang ? new Promise<never>(() => undefined) : Promise.resolve({ accessKeyId: 'id', secretAccessKey: 'secret' }));
    await open((request, response) => {
      request.resume().once('end', () => response.setHeader('etag', '"1"').end());
    }, { timeoutMs: 1_000, credentials });
    await bucket.upload('a', one(Buffer.alloc(5)));
    hang = true;
    await expect(bucket.create('b', Buffer.alloc(2 * MIB))).rejects.toThrow(StoreSilentError);
  });

  it.each([
    ["its own region before the SDK's", 'eu-central-1', 'eu-central-1'],
    ["the SDK's region if it has none", undefined, 'eu-north-1'],
  ])('signs for %s', async (_, region, expected) => {
    vi.stubEnv('AWS_REGION', 'eu-north-1');
    const signed: (string | undefined)[] = [];
    await open((request, response) => {
      signed.push(/Credential=id\/\d+\/([^/]*)\/s3\//.exec(request.headers.authorization ?? '')?.[1]);
      response.writeHead(200, { etag: '"1"' }).end('bytes');
    }, { region });
    await bucket.read('a');
    expect(signed).toEqual([expected]);
  });

  it("computes an object's age by the store's clock", async () => {
    await open((request, response) => {
      const isListing = request.url?.includes('list-type=2');
      response.writeHead(200, { date: DATE, ...(!isListing && { 'last-modified': LAST_MODIFIED, etag: '"1"' }) });
      response.end(isListing ? LISTING : 'bytes');
    });
    expect(await bucket.read('a')).toEqual({ bytes: Buffer.from('bytes'), version: '"1"', ageMs: 90_000 });
    for await (const listed of bucket.list('')) expect(listed).toEqual({ key: 'a', size: 5, ageMs: 90_000 });
    expect.assertions(2);
  });

  it('lists each object once, although the store repeats keys and a page', async () => {
    const pages = [['a', 'b'], ['b', 'b/\u{ff5e}', 'b/\u{1f600}'], ['b/\u{ff5e}', 'b/\u{1f600}'], ['c', 'c']];
    await open((request, response) => {
      const page = Number(new URL(request.url ?? '', 'http://localhost').searchParams.get('continuation-token') ?? 0);
      const contents = (pages[page] ?? []).map((key) => `<Contents><Key>data/${key}</Key><LastModified>2010-01-01T00:00:00.000Z</LastModified><Size>5</Size></Contents>`);
      const next = page + 1 < pages.length ? `<NextContinuationToken>${page + 1}</NextContinuationToken>` : '';
      response.end(`<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>${contents.join('')}${next}</ListBucketResult>`);
    });
    const listed: string[] = [];
    for await (const { key } of bucket.list('')) listed.push(key);
    expect(listed).toEqual(['a', 'b', 'b/\u{ff5e}', 'b/\u{1f600}', 'c']);
  });

  it('lists each directory once, although a page begins with the last one of the page before', async () => {
    const pages = [['a/', 'b/'], ['b/', 'c/']];
    await open((request, response) => {
      const page = Number(new URL(request.url ?? '', 'http://localhost').searchParams.get('continuation-token') ?? 0);
      const prefixes = (pages[page] ?? []).map((name) => `<CommonPrefixes><Prefix>data/${name}</Prefix></CommonPrefixes>`);
      const next = page + 1 < pages.length ? `<NextContinuationToken>${page + 1}</NextContinuationToken>` : '';
      response.end(`<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>${prefixes.join('')}${next}</ListBucketResult>`);
    });
    const listed: string[] = [];
    for await (const directory of bucket.listDirectories('')) listed.push(directory);
    expect(listed).toEqual(['a/', 'b/', 'c/']);
  });

  it('lets the store begin a listing after a key', async () => {
    const asked: (string | null)[] = [];
    await open((request, response) => {
      const { searchParams } = new URL(request.url ?? '', 'http://localhost');
      asked.push(searchParams.get('prefix'), searchParams.get('start-after'));
      response.end(LISTING);
    });
    for await (const { key } of bucket.listAfter('uploads/', 'uploads/b')) expect(key).toBe('a');
    expect(asked).toEqual(['data/uploads/', 'data/uploads/b']);
  });

  it('rejects when the store reports that a single object was not removed', async () => {
    await open((_, response) => {
      response.end('<DeleteResult><Error><Key>data/b</Key><Code>AccessDenied</Code><Message>No.</Message></Error></DeleteResult>');
    });
    await expect(bucket.remove(['a', 'b'])).rejects.toThrow('AccessDenied');
  });

  it.each<[string, (key: string) => Promise<unknown>]>([
    ['a file', (key) => bucket.upload(key, one(Buffer.alloc(5)))],
    ['a file in parts', (key) => bucket.upload(key, one(Buffer.alloc(6 * MIB)))],
    ['an object', (key) => bucket.create(key, Buffer.alloc(5))],
  ])("repeats a request when this machine's clock turns out to be wrong, and when it is right again (%s)", async (_, store) => {
    let now = Date.now() + 20 * 60_000;
    const refused: string[] = [];
    await open((request, response) => {
      const signedAt = String(request.headers['x-amz-date']).replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z');
      const isSkewed = Math.abs(Date.parse(signedAt) - now) > 15 * 60_000;
      if (isSkewed) refused.push(request.method ?? '');
      request.resume().once('end', () => {
        response.writeHead(isSkewed ? 403 : 200, { date: new Date(now).toUTCString(), etag: '"1"' });
        if (isSkewed) response.end('<Error><Code>RequestTimeTooSkewed</Code><Message>No.</Message></Error>');
        else if (/[?&]uploads/.test(request.url ?? '')) response.end('<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>');
        else response.end(request.method === 'POST' ? '<CompleteMultipartUploadResult><ETag>"1"</ETag></CompleteMultipartUploadResult>' : '');
      });
    });
    await store('a');
    expect(refused).toHaveLength(1);
    expect(Math.round(bucket.clockOffsetMs / 60_000)).toBe(20);
    await store('b');
    expect(refused).toHaveLength(1);
    now = Date.now();
    await Promise.all([store('c'), store('d')]);
    expect(Math.round(bucket.clockOffsetMs / 60_000)).toBe(0);
    refused.length = 0;
    await store('e');
    expect(refused).toEqual([]);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['of small requests', () => bucket.create('a', Buffer.alloc(5))],
    ['of files', () => bucket.upload('a', one(Buffer.alloc(5)))],
    ['that refuse a request', () => bucket.read('missing')],
  ])('knows the clock of the store by the latest answer: %s', async (_, call) => {
    let aheadMs = 20 * 60_000;
    await open((request, response) => {
      const isMissing = request.url?.includes('missing');
      request.resume().once('end', () => {
        response.writeHead(isMissing ? 404 : 200, { date: new Date(Date.now() + aheadMs).toUTCString(), etag: '"1"' });
        response.end(isMissing ? '<Error><Code>NoSuchKey</Code><Message>No.</Message></Error>' : '');
      });
    });
    const aheadMinutes = () => [bucket.clockOffsetMs, bucket.storeTime - Date.now()].map((offsetMs) => Math.round(offsetMs / 60_000));
    await Promise.all([bucket.create('a', Buffer.alloc(5)), bucket.upload('b', one(Buffer.alloc(5)))]);
    expect(aheadMinutes()).toEqual([20, 20]);
    aheadMs = -10 * 60_000;
    await call();
    expect(aheadMinutes()).toEqual([-10, -10]);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['read', () => bucket.read('a')],
    ['open', () => bucket.open('a')],
    ['replace', () => bucket.replace('a', Buffer.from('bytes'), '"1"')],
    ['upload', () => bucket.upload('a', one(Buffer.from('bytes')))],
  ])('rejects %s when the bucket does not exist', async (_, call) => {
    await open((request, response) => {
      request.resume();
      response.writeHead(404).end('<Error><Code>NoSuchBucket</Code><Message>No.</Message></Error>');
    });
    await expect(call()).rejects.toThrow(expect.objectContaining({ name: 'NoSuchBucket' }));
  });

  it.each<[string, () => Promise<unknown>]>([
    ['a small request', () => bucket.create('a', Buffer.from('bytes'))],
    ['a part of a file', () => bucket.upload('a', one(Buffer.from('bytes')))],
  ])('reports each request that it repeats: %s', async (_, store) => {
    let failures = 2;
    await open((request, response) => {
      request.resume().once('end', () => response.writeHead(failures-- > 0 ? 503 : 200, { etag: '"1"' }).end());
    });
    await store();
    expect(retries).toBe(2);
    await store();
    expect(retries).toBe(2);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['an object', () => bucket.create('a', Buffer.from('bytes'))],
    ['a file', () => bucket.upload('a', one(Buffer.from('bytes')))],
  ])('reports each write that it repeats after a conflict with another write: %s', async (_, store) => {
    let conflicts = 2;
    await open((request, response) => {
      request.resume().once('end', () => {
        if (request.method === 'HEAD') response.writeHead(404).end();
        else if (conflicts-- > 0) response.writeHead(409).end('<Error><Code>ConditionalRequestConflict</Code><Message>No.</Message></Error>');
        else response.writeHead(200, { etag: '"1"' }).end();
      });
    });
    await store();
    expect(retries).toBe(2);
  });

  it('reports the tenth repeat too, if AWS_MAX_ATTEMPTS allows as many', async () => {
    vi.stubEnv('AWS_MAX_ATTEMPTS', '12');
    // Then the SDK doesn't pause before it repeats a request.
    vi.spyOn(Math, 'random').mockReturnValue(0);
    let failures = 11;
    await open((request, response) => {
      request.resume().once('end', () => response.writeHead(failures-- > 0 ? 503 : 200, { etag: '"1"' }).end());
    });
    await bucket.create('a', Buffer.from('bytes'));
    expect(retries).toBe(11);
  });

  it('reports that it reads again after an answer broke off', async () => {
    let answers = 0;
    await open((_, response) => {
      answers += 1;
      response.writeHead(200, { date: DATE, 'last-modified': LAST_MODIFIED, etag: '"1"', 'content-length': 5 });
      if (answers === 1) response.write('by', () => response.destroy());
      else response.end('bytes');
    });
    expect((await bucket.read('a'))?.bytes.toString()).toBe('bytes');
    expect(retries).toBe(1);
  });

  it.each<[string, (bytes: Uint8Array) => Promise<unknown>]>([
    ['an object', (bytes) => bucket.create('a', bytes)],
    ['a file', (bytes) => bucket.upload('a', one(bytes))],
  ])('computes the checksums of %s in steps, between which other work runs', async (_, store) => {
    const bytes = randomBytes(16 * MIB);
    let headers: IncomingHttpHeaders = {};
    await open((request, response) => {
      ({ headers } = request);
      request.resume().once('end', () => response.writeHead(200, { etag: '"1"' }).end());
    }, { maxUploadBytes: 200_000 * MIB });
    // Each reading of the clock advances it by a millisecond, so that a turn has few steps on a machine of any speed.
    let now = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => now++);
    const hashed = { inTurn: 0, most: 0, inAll: 0 };
    const count = (data: unknown): void => {
      const { length } = data as Buffer;
      hashed.inTurn += length;
      hashed.inAll += length;
      hashed.most = Math.max(hashed.most, hashed.inTurn);
    };
    const { crc32 } = zlib;
    vi.spyOn(zlib, 'crc32').mockImplementation((data, value) => {
      count(data);
      return crc32(data, value);
    });
    const hashes = Object.getPrototypeOf(createHash('sha256')) as { update: (data: unknown) => unknown };
    const { update } = hashes;
    vi.spyOn(hashes, 'update').mockImplementation(function hash(this: unknown, data: unknown) {
      count(data);
      return update.call(this, data);
    });
    let others = setImmediate(function turnOfOthers() {
      hashed.inTurn = 0;
      others = setImmediate(turnOfOthers);
    });
    await store(bytes);
    clearImmediate(others);
    vi.restoreAllMocks();
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32BE(crc32(bytes));
    expect(headers['x-amz-checksum-crc32']).toBe(checksum.toString('base64'));
    expect(headers['x-amz-content-sha256']).toBe(createHash('sha256').update(bytes).digest('hex'));
    expect(hashed.inAll).toBeGreaterThanOrEqual(2 * bytes.length);
    expect(hashed.most).toBeLessThan(4 * MIB);
  });

  describe('with a time-out of a second', () => {
    const found = { date: DATE, 'last-modified': LAST_MODIFIED, etag: '"1"', 'content-length': 8 };

    it('reads an object for longer, as long as bytes arrive', async () => {
      await open(async (_, response) => {
        response.writeHead(200, found);
        for (const byte of 'thebytes') {
          response.write(byte);
          await delay(200);
        }
        response.end();
      }, { timeoutMs: 1_000 });
      expect((await bucket.read('a'))?.bytes.toString()).toBe('thebytes');
    });

    it.each<[string, (bytes: Uint8Array) => Promise<unknown>]>([
      ['an object', (bytes) => bucket.create('a', bytes)],
      ['a file', (bytes) => bucket.upload('a', one(bytes))],
    ])('writes %s for longer, as long as the store accepts bytes', async (_, store) => {
      let length = 0;
      await open(async (request, response) => {
        for await (const chunk of request as AsyncIterable<Buffer>) {
          const before = length;
          length += chunk.length;
          if (Math.floor(before / (4 * MIB)) < Math.floor(length / (4 * MIB))) await delay(200);
        }
        response.writeHead(200, { etag: '"1"' }).end();
      }, { maxUploadBytes: 400_000 * MIB, timeoutMs: 1_000 });
      await store(Buffer.alloc(32 * MIB));
      expect(length).toBe(32 * MIB);
    });

    it.each<[string, () => Promise<unknown>]>([
      ['in the middle of an answer', () => bucket.read('a')],
      ['in the middle of a long object', () => bucket.create('a', Buffer.alloc(32 * MIB))],
    ])('rejects when the store falls silent %s', async (_, call) => {
      let requests = 0;
      await open((request, response) => {
        requests += 1;
        request.pause();
        if (request.method === 'GET') response.writeHead(200, found).write('the');
      }, { timeoutMs: 1_000 });
      await expect(call()).rejects.toBeInstanceOf(StoreSilentError);
      expect(requests).toBe(1);
      server.closeAllConnections();
    });
  });

  it('sends larger parts when the largest file would have too many', async () => {
    const lengths: number[] = [];
    await open(accepting(({ headers }) => lengths.push(Number(headers['content-length']))), { maxUploadBytes: 60_000 * MIB });
    await bucket.upload('a', one(Buffer.alloc(13 * MIB)));
    expect(lengths.sort((a, b) => b - a)).toEqual([6, 6, 1].map((mib) => mib * MIB));
  });

  it('takes the memory of parts from the budget of the process until they are sent', async () => {
    const used: number[] = [];
    await open(accepting(() => used.push(processMemory.usedFor('part'))));
    await bucket.upload('a', one(Buffer.alloc(11 * MIB)));
    expect(used).toHaveLength(3);
    expect(Math.max(...used)).toBeGreaterThanOrEqual(5 * MIB);
    expect(processMemory.usedFor('part')).toBe(0);
  });
});

/**
 * Handles the requests of a multipart upload like a server that accepts it. Calls `onPart` with the request of each
 * part.
 */
function accepting(onPart: (request: IncomingMessage) => void): RequestListener {
  return (request, response) => {
    if (request.url?.includes('partNumber')) onPart(request);
    request.resume().once('end', () => {
      const isBeginning = /[?&]uploads/.test(request.url ?? '');
      response.setHeader('etag', '"1"');
      response.end(isBeginning ? '<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>' : '<x/>');
    });
  };
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}
