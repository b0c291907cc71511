import { randomBytes, randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import {
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { ObjectExistsError, StoreSilentError } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { S3Bucket, type S3BucketOptions } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { bucketContract, type BucketContractSubject, type BucketRight, PAGE_SIZE } from '../../src/testing/bucket.contract.js';
import { type FaultProxy, otherTime, type ProxiedRequest, startFaultProxy } from '../servers/fault-proxy.mjs';
import { mostBegunAtOnce } from '../support/begun-requests.js';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';

const BUCKET = 'load-data';
const KEY = 'files/kind=historical/customer_id=acme/date=2025-03-30/0195e5a0.csv';
/** The bucket's time limit for a call. It is short, so that a call fails soon when the store does not respond. */
const TIMEOUT_MS = 1000;
const PATIENCE = { timeout: 20_000, interval: 50 };

describe.runIf(isVersitygwAvailable())('S3Bucket on versitygw', () => {
  let server: Versitygw;
  let client: S3Client;
  beforeAll(async () => {
    server = await startVersitygw();
    await server.createBucket(BUCKET);
    client = new S3Client({ ...access(), endpoint: server.endpoint });
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });

  const access = () => {
    const { region, accessKeyId, secretAccessKey } = server;
    return { region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } };
  };

  const open = (prefix: string, options: Partial<S3BucketOptions> = {}) =>
    new S3Bucket({
      ...access(),
      bucket: BUCKET,
      prefix,
      endpoint: server.endpoint,
      timeoutMs: 10_000,
      maxUploadBytes: 5 * 1024 * MIB,
      pageSize: PAGE_SIZE,
      ...options,
    });

  const partsAt = async (key: string) => {
    const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET, Prefix: key }));
    return Uploads.filter(({ Key }) => Key === key).length;
  };

  const leavePartsAt = async (Key: string) => {
    const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket: BUCKET, Key }));
    const part = { Bucket: BUCKET, Key, UploadId, PartNumber: 1, Body: Buffer.alloc(1000) };
    await client.send(new UploadPartCommand(part));
  };

  /** The requests of each operation of `checkRights`. */
  const requests: Readonly<Record<BucketRight, (request: ProxiedRequest) => boolean>> = {
    read: ({ method, url }) => ['GET', 'HEAD'].includes(method) && !/[?&](list-type|uploads)/.test(url),
    list: ({ url }) => url.includes('list-type=2'),
    remove: ({ method, url }) => method === 'POST' && url.includes('?delete'),
    removeParts: ({ method, url }) => method === 'GET' && /[?&]uploads/.test(url),
  };

  it('accepts requests that are not sent by the SDK, so that none is repeated', async () => {
    let retries = 0;
    const bucket = open(`direct-${randomUUID()}`, { onRetry: () => { retries += 1; } });
    try {
      for (const name of ['a', "kind=nowcast/customer_id=it's (1)*!/ü~%2F a.ndjson", 'b//c', '+&?#']) {
        const bytes = Buffer.from(`bytes of ${name}`);
        const version = await bucket.create(name, bytes);
        expect(await bucket.create(name, bytes)).toBeUndefined();
        expect(await bucket.replace(name, bytes, '"another"')).toBeUndefined();
        expect(await bucket.replace(name, bytes, version)).toEqual(expect.any(String));
        expect(await bucket.read(name)).toMatchObject({ bytes, version });
        expect(Buffer.concat(await Readable.from((await bucket.open(name, { first: 3, last: 7 })) ?? []).toArray())).toEqual(bytes.subarray(3, 8));
        expect(await bucket.open(name, { first: 1000, last: 1001 }).then((pieces) => Readable.from(pieces ?? []).toArray())).toEqual([]);
        expect(await bucket.read(`${name} missing`)).toBeUndefined();
        await bucket.upload(`${name} file`, Readable.from([bytes]));
        expect((await bucket.read(`${name} file`))?.bytes).toEqual(bytes);
      }
      expect(retries).toBe(0);
    } finally {
      bucket.close();
    }
  });

  bucketContract('S3 (versitygw)', () => {
    const prefix = `contract-${randomUUID()}`;
    const bucket = open(prefix);
    const neighbour = open(`${prefix}-2/`);
    const proxies: FaultProxy[] = [];
    const opened = [bucket, neighbour];
    const behindProxy = async (spoil: (proxy: FaultProxy) => void) => {
      const proxy = await startFaultProxy(server.endpoint);
      proxies.push(proxy);
      spoil(proxy);
      const behind = open(prefix, { endpoint: proxy.endpoint });
      opened.push(behind);
      return behind;
    };
    return Promise.resolve<Required<BucketContractSubject>>({
      bucket,
      neighbour,
      parts: (key) => partsAt(`${prefix}/${key}`),
      leaveParts: (key) => leavePartsAt(`${prefix}/${key}`),
      withClockAhead: (aheadMs) => behindProxy((proxy) => { proxy.alter(otherTime(aheadMs)); }),
      without: (right) => behindProxy((proxy) => void proxy.answer(403, 'AccessDenied', { to: requests[right], times: Infinity })),
      tearDown: async () => {
        for (const each of opened) each.close();
        await Promise.all(proxies.map((proxy) => proxy.close()));
      },
    });
  });

  it('begins many calls a few at a time, so that other requests are answered between them', async () => {
    const bucket = open(`many-${randomUUID()}`);
    const calls = () => Promise.all(Array.from({ length: 60 }, (_, index) => bucket.create(`key-${index}`, Buffer.from('bytes'))));
    expect(await mostBegunAtOnce(calls)).toBeLessThan(6);
    bucket.close();
  });

  it('closes connections that a burst of calls has opened and that are no longer used', async () => {
    // The proxy doesn't close idle connections.
    const proxy = await startFaultProxy(server.endpoint, { keepAliveMs: 0 });
    const bucket = open(`burst-${randomUUID()}`, { endpoint: proxy.endpoint });
    proxy.hold();
    const calls = Promise.all(Array.from({ length: 20 }, (_, index) => bucket.read(`key-${index}`)));
    await expect.poll(() => proxy.connections(), PATIENCE).toBe(20);
    await proxy.pass();
    await calls;
    await expect.poll(() => proxy.connections(), PATIENCE).toBe(0);
    bucket.close();
    await proxy.close();
  });

  describe('when the store or the network fails', () => {
    let proxy: FaultProxy;
    let prefix: string;
    let bucket: S3Bucket;
    beforeEach(async () => {
      proxy = await startFaultProxy(server.endpoint);
      prefix = `faults-${randomUUID()}`;
      bucket = open(prefix, { endpoint: proxy.endpoint, timeoutMs: TIMEOUT_MS });
    });
    afterEach(async () => {
      bucket.close();
      await proxy.close();
    });

    const parts = () => partsAt(`${prefix}/${KEY}`);
    const expectNoParts = () => vi.waitFor(async () => { expect(await parts()).toBe(0); }, PATIENCE);
    const textAt = async (key: string) => (await bucket.read(key))?.bytes.toString();

    /** A client whose upload has `size` bytes, then pauses until `goOn` is called, and then has `rest` more bytes. */
    const slowClient = (size: number, rest: number) => {
      const client = new EventEmitter();
      const isSilent = once(client, 'silent');
      const bytes = (async function* () {
        yield randomBytes(size);
        const goesOn = once(client, 'go on');
        client.emit('silent');
        await goesOn;
        yield randomBytes(rest);
      })();
      return { bytes, isSilent, goOn: () => client.emit('go on') };
    };

    const isUploading = () => vi.waitFor(async () => { expect(await parts()).toBe(1); }, PATIENCE);

    describe.each<[string, () => Promise<void> | void, () => Promise<void> | void, new (...parameters: never[]) => Error]>([
      ['a stopped store', () => server.pause(), () => { server.resume(); }, StoreSilentError],
      ['answers that never arrive', () => { proxy.hold(); }, () => proxy.pass(), StoreSilentError],
      ['a killed store', () => server.kill(), () => server.restart(), Error],
      ['refused connections', () => proxy.refuse(), () => proxy.pass(), Error],
      ['reset connections', () => { proxy.reset(); }, () => proxy.pass(), Error],
      ['a store that asks to slow down', () => { proxy.throttle(); }, () => proxy.pass(), Error],
    ])('with %s', (fault, fail, recover, Failure) => {
      const CALLS: [string, () => Promise<unknown>][] = [
        ['create', () => bucket.create('a', Buffer.from('new'))],
        ['a large upload', () => bucket.upload('a', only(randomBytes(12 * MIB)))],
        ['a small upload', () => bucket.upload('a', only(Buffer.from('new')))],
        ['read', () => bucket.read('b')],
        ['open', () => bucket.open('b')],
        ['list', () => gather(bucket.list(''))],
        ['remove', () => bucket.remove(['c'])],
        ['removeParts', () => bucket.removeParts('c')],
      ];
      // A client sees a stopped store like one whose answers never arrive, and a killed one like one that refuses
      // connections.
      const isLikeAnother = fault === 'a stopped store' || fault === 'a killed store';

      it.each(CALLS.slice(0, isLikeAnother ? 2 : undefined))('rejects %s, and works again afterwards', async (_, call) => {
        await bucket.create('b', Buffer.from('bytes'));
        await fail();
        try {
          await expect(call()).rejects.toBeInstanceOf(Failure);
        } finally {
          await recover();
        }
        expect(await textAt('b')).toBe('bytes');
        expect(await bucket.create('d', Buffer.from('bytes'))).toBeTypeOf('string');
      });

      it('rejects in the middle of an upload, leaves no object, and removes the parts', async () => {
        const { bytes, isSilent, goOn } = slowClient(11 * MIB, 10 * MIB);
        const uploading = bucket.upload(KEY, bytes).catch((error: unknown) => error);
        await isSilent;
        await isUploading();
        await fail();
        try {
          goOn();
          expect(await uploading).toBeInstanceOf(Failure);
        } finally {
          await recover();
        }
        expect(await bucket.read(KEY)).toBeUndefined();
        await expectNoParts();
      });

      it('rejects with the error that the bytes threw in the meantime, leaves no object, and removes the parts', async () => {
        const broken = new Error('the client went away');
        const { bytes, isSilent, goOn } = slowClient(11 * MIB, 0);
        const breaking = (async function* () {
          yield* bytes;
          throw broken;
        })();
        const uploading = bucket.upload(KEY, breaking).catch((error: unknown) => error);
        await isSilent;
        await isUploading();
        await fail();
        try {
          goOn();
          expect(await uploading).toBe(broken);
        } finally {
          await recover();
        }
        await expectNoParts();
      });
    });

    it('rejects when the store does not respond, even if the client is silent too', async () => {
      const { bytes, isSilent } = slowClient(11 * MIB, 0);
      proxy.hold();
      const uploading = bucket.upload(KEY, bytes);
      await isSilent;
      await expect(uploading).rejects.toBeInstanceOf(StoreSilentError);
      await proxy.pass();
      await expectNoParts();
    });

    it('survives an outage of the store that is shorter than the time-out in the middle of an upload', async () => {
      const patient = open(prefix, { endpoint: proxy.endpoint, timeoutMs: 20_000 });
      const { bytes, isSilent, goOn } = slowClient(11 * MIB, 10 * MIB);
      const uploading = patient.upload(KEY, bytes);
      await isSilent;
      await isUploading();
      await server.kill();
      goOn();
      await server.restart();
      await uploading;
      patient.close();
      expect(await gather(bucket.list(KEY))).toMatchObject([{ key: KEY, size: 21 * MIB }]);
      expect(await parts()).toBe(0);
    });

    it('repeats a part more often than the SDK does', async () => {
      const patient = open(prefix, { endpoint: proxy.endpoint, timeoutMs: 20_000 });
      const to = ({ url }: ProxiedRequest) => url.includes('partNumber=2');
      const faults = Array.from({ length: 7 }, () => proxy.answer(500, 'InternalError', { to }));
      await patient.upload(KEY, only(randomBytes(11 * MIB)));
      patient.close();
      await Promise.all(faults);
      expect(await gather(bucket.list(KEY))).toMatchObject([{ key: KEY, size: 11 * MIB }]);
    });

    it('closes the connections of objects that were opened and left', async () => {
      await bucket.upload(KEY, only(randomBytes(12 * MIB)));
      const patient = open(prefix, { endpoint: proxy.endpoint, timeoutMs: 60_000 });
      const opened = await Promise.all(Array.from({ length: 10 }, () => patient.open(KEY)));
      bucket.close();
      expect(await proxy.connections()).toBeGreaterThanOrEqual(10);
      for (const pieces of opened) await pieces?.[Symbol.asyncIterator]().return?.();
      await vi.waitFor(async () => { expect(await proxy.connections()).toBe(0); }, PATIENCE);
      patient.close();
    });

    describe('when another write to the same key is in progress', () => {
      const conflict = (to: (request: ProxiedRequest) => boolean) => proxy.answer(409, 'ConditionalRequestConflict', { to });
      const isWrite = ({ method, url }: ProxiedRequest) => method === 'PUT' || (method === 'POST' && url.includes('uploadId='));

      it.each([
        ['create', () => bucket.create(KEY, Buffer.from('ours'))],
        ['a small upload', () => bucket.upload(KEY, only(Buffer.from('ours')))],
      ])('waits for the outcome (%s)', async (_, write) => {
        const met = conflict(isWrite);
        await write();
        await met;
        expect(await textAt(KEY)).toBe('ours');
      });

      it('reports that the key is in use', async () => {
        await bucket.create(KEY, Buffer.from('first'));
        const met = conflict(isWrite);
        expect(await bucket.create(KEY, Buffer.from('second'))).toBeUndefined();
        await met;
      });

      it('waits for the outcome at the end of an upload', async () => {
        const met = conflict(({ method, url }) => method === 'POST' && url.includes('uploadId='));
        await bucket.upload(KEY, only(randomBytes(6 * MIB)));
        await met;
        expect(await gather(bucket.list(KEY))).toMatchObject([{ key: KEY, size: 6 * MIB }]);
      });
    });

    it('waits for a client that is slower than the time-out', async () => {
      const bytes = randomBytes(11 * MIB);
      await bucket.upload(
        KEY,
        (async function* () {
          yield bytes.subarray(0, 6 * MIB);
          await delay(2.5 * TIMEOUT_MS);
          yield bytes.subarray(6 * MIB);
        })(),
      );
      expect(Buffer.concat(await gather((await bucket.open(KEY)) ?? [])).equals(bytes)).toBe(true);
    });

    it('immediately removes the parts of an aborted upload', async () => {
      const broken = new Error('the client went away');
      const { bytes, isSilent, goOn } = slowClient(11 * MIB, 0);
      const breaking = (async function* () {
        yield* bytes;
        throw broken;
      })();
      const uploading = bucket.upload(KEY, breaking);
      await isSilent;
      await isUploading();
      goOn();
      await expect(uploading).rejects.toBe(broken);
      expect(await parts()).toBe(0);
    });

    describe('when a response is lost', () => {
      const isPut = ({ method }: ProxiedRequest) => method === 'PUT';

      it('recognizes an object that this create wrote', async () => {
        const cut = proxy.cutAnswer({ to: isPut });
        const version = await bucket.create('a', Buffer.from('ours'));
        await cut;
        expect(version).toBeTypeOf('string');
        expect(await bucket.read('a')).toMatchObject({ bytes: Buffer.from('ours'), version });
      });

      it('does not recognize an object of another create, not even with the same bytes', async () => {
        await bucket.create('a', Buffer.from('fence'));
        const cut = proxy.cutAnswer({ to: isPut });
        expect(await bucket.create('a', Buffer.from('fence'))).toBeUndefined();
        await cut;
      });

      it('recognizes an object that this replace wrote', async () => {
        const first = await bucket.create('a', Buffer.from('first'));
        const cut = proxy.cutAnswer({ to: isPut });
        const second = await bucket.replace('a', Buffer.from('second'), first);
        await cut;
        expect(await bucket.read('a')).toMatchObject({ bytes: Buffer.from('second'), version: second });
        expect(second).toBeTypeOf('string');
      });

      it('reports that a version was replaced earlier', async () => {
        const first = await bucket.create('a', Buffer.from('first'));
        await bucket.replace('a', Buffer.from('second'), first);
        const cut = proxy.cutAnswer({ to: isPut });
        expect(await bucket.replace('a', Buffer.from('third'), first)).toBeUndefined();
        await cut;
        expect(await textAt('a')).toBe('second');
      });

      const UPLOADS: [string, number, (request: ProxiedRequest) => boolean][] = [
        ['to its only request', 1000, isPut],
        ['to its start', 12 * MIB, ({ url }) => /[?&]uploads/.test(url)],
        ['to a part', 12 * MIB, ({ url }) => url.includes('partNumber=2')],
        ['to its completion', 12 * MIB, ({ method, url }) => method === 'POST' && url.includes('uploadId=')],
      ];

      it.each(UPLOADS)('completes an upload, and leaves no parts (%s)', async (_, size, to) => {
        const bytes = randomBytes(size);
        const cut = proxy.cutAnswer({ to });
        await bucket.upload(KEY, only(bytes));
        await cut;
        expect(Buffer.concat(await gather((await bucket.open(KEY)) ?? [])).equals(bytes)).toBe(true);
        await expectNoParts();
      });

      it.each(UPLOADS)('reports that the key of an upload is in use, and leaves no parts (%s)', async (_, size, to) => {
        await bucket.create(KEY, Buffer.from('first'));
        const cut = proxy.cutAnswer({ to });
        const outcome = await bucket.upload(KEY, only(randomBytes(size))).catch((error: unknown) => error);
        expect(outcome).toBeInstanceOf(ObjectExistsError);
        await cut;
        expect(await textAt(KEY)).toBe('first');
        await expectNoParts();
      });

      // These are MinIO's answers when the request that completes a multipart upload is repeated. versitygw answers 200
      // again.
      it.each([
        [404, 'NoSuchUpload'],
        [412, 'PreconditionFailed'],
      ])('recognizes a complete upload when the store answers the repeated request with %i', async (status, code) => {
        const to = ({ method, url }: ProxiedRequest) => method === 'POST' && url.includes('uploadId=');
        const happened = [proxy.cutAnswer({ to }), proxy.answer(status, code, { to })];
        await bucket.upload(KEY, only(randomBytes(12 * MIB)));
        await Promise.all(happened);
        expect(await gather(bucket.list(KEY))).toMatchObject([{ key: KEY, size: 12 * MIB }]);
      });

      it('rejects when the parts of an upload are missing', async () => {
        const answered = proxy.answer(404, 'NoSuchUpload', { to: ({ method, url }) => method === 'POST' && url.includes('uploadId=') });
        await expect(bucket.upload(KEY, only(randomBytes(12 * MIB)))).rejects.toThrow(
          expect.objectContaining({ name: 'NoSuchUpload' }),
        );
        await answered;
        expect(await bucket.read(KEY)).toBeUndefined();
        await expectNoParts();
      });

      it('repeats reads, lists and removals', async () => {
        for (const key of ['a', 'b']) await bucket.create(key, randomBytes(100_000));
        for (const call of [
          () => bucket.read('a'),
          () => gather(bucket.list('')),
          () => gather(bucket.listDirectories('')),
          () => bucket.remove(['a', 'b']),
          () => bucket.removeParts('a'),
        ]) {
          const cut = proxy.cutAnswer();
          await call();
          await cut;
        }
        expect(await gather(bucket.list(''))).toEqual([]);
      });

      it('repeats a read that broke off in the middle', async () => {
        const bytes = randomBytes(100_000);
        await bucket.create('a', bytes);
        const cut = proxy.cutAnswer({ afterBytes: 50_000 });
        expect((await bucket.read('a'))?.bytes.equals(bytes)).toBe(true);
        await cut;
      });

      it('rejects in the middle of an opened object', async () => {
        await bucket.create('a', randomBytes(100_000));
        const cut = proxy.cutAnswer({ afterBytes: 50_000 });
        await expect(gather((await bucket.open('a')) ?? [])).rejects.toThrow();
        await cut;
      });
    });
  });
});

async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

async function gather<Item>(items: AsyncIterable<Item> | Iterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}
