import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { ContainerClient, ContainerSASPermissions, type RestError } from '@azure/storage-blob';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import {
  AzureBlobBucket,
  type AzureBlobBucketOptions,
} from '../../src/ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js';
import { type Bucket, ObjectExistsError } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { bucketContract, type BucketContractSubject, type BucketRight, PAGE_SIZE } from '../../src/testing/bucket.contract.js';
import { anUploadDraft } from '../../src/testing/upload-draft.builder.js';
import { mostBegunAtOnce } from '../support/begun-requests.js';
import { type Azurite, startAzurite } from '../servers/azurite.mjs';
import { type FaultProxy, otherTime, type ProxiedRequest, startFaultProxy } from '../servers/fault-proxy.mjs';

const PATIENT_MS = 20_000;
const IMPATIENT_MS = 1_000;

let server: Azurite;
let container: string;
/** A client of the SDK for the same container, which bypasses the bucket under test. */
let client: ContainerClient;

beforeAll(async () => {
  server = await startAzurite();
});
afterAll(() => server.stop());

async function useNewContainer(): Promise<void> {
  container = randomUUID();
  await server.createContainer(container);
  client = new ContainerClient(server.connectionString, container);
}

const through = (proxy: FaultProxy) => ({ connectionString: server.connectionString.replace(server.endpoint, proxy.endpoint) });

const bucketWith = (options: Partial<AzureBlobBucketOptions>): AzureBlobBucket =>
  new AzureBlobBucket({ container, account: { connectionString: server.connectionString }, timeoutMs: PATIENT_MS, ...options });

/** The requests of each operation of `checkRights`. */
const REQUESTS: Readonly<Record<BucketRight, (request: ProxiedRequest) => boolean>> = {
  read: ({ method, url }) => method === 'GET' && !url.includes('comp='),
  list: ({ url }) => url.includes('comp=list&'),
  remove: ({ method }) => method === 'DELETE',
  removeParts: ({ method, url }) => method === 'GET' && url.includes('comp=blocklist'),
};

bucketContract('Azure Blob Storage', async (): Promise<Required<BucketContractSubject>> => {
  await useNewContainer();
  const proxies: FaultProxy[] = [];
  const behindProxy = async (spoil: (proxy: FaultProxy) => void) => {
    const proxy = await startFaultProxy(server.endpoint);
    proxies.push(proxy);
    spoil(proxy);
    return bucketWith({ prefix: 'a/', pageSize: PAGE_SIZE, account: through(proxy) });
  };
  return {
    bucket: bucketWith({ prefix: 'a/', pageSize: PAGE_SIZE }),
    neighbour: bucketWith({ prefix: 'ab/', pageSize: PAGE_SIZE }),
    parts: async (key) => {
      const names: string[] = [];
      for await (const { name } of client.listBlobsFlat({ prefix: `a/${key}`, includeUncommitedBlobs: true })) names.push(name);
      const isUnfinished = names.includes(`a/${key}`) && !(await client.getBlobClient(`a/${key}`).exists());
      return isUnfinished ? 1 : 0;
    },
    leaveParts: async (key) => {
      const id = Buffer.from(randomUUID()).toString('base64');
      await client.getBlockBlobClient(`a/${key}`).stageBlock(id, 'left', 4);
    },
    withClockAhead: (aheadMs) => behindProxy((proxy) => { proxy.alter(otherTime(aheadMs)); }),
    without: (right) => behindProxy((proxy) => void proxy.answer(403, 'AuthorizationPermissionMismatch', { to: REQUESTS[right], times: Infinity })),
    tearDown: async () => {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await client.delete();
    },
  };
});

const OPERATIONS: readonly [string, (bucket: Bucket, key: string) => Promise<unknown>][] = [
  ['create', (bucket, key) => bucket.create(key, Buffer.from('new'))],
  ['replace', (bucket) => bucket.replace('there', Buffer.from('new'))],
  ['replace of a version', (bucket) => bucket.replace('there', Buffer.from('new'), '"0x0"')],
  ['upload of no bytes', (bucket, key) => bucket.upload(key, megabytes(0))],
  ['upload of a few bytes', (bucket, key) => bucket.upload(key, megabytes(1))],
  ['upload of many bytes', (bucket, key) => bucket.upload(key, megabytes(30))],
  ['read', (bucket) => bucket.read('there')],
  ['open', (bucket) => bucket.open('there')],
  ['list', (bucket) => gather(bucket.list(''))],
  ['listDirectories', (bucket) => gather(bucket.listDirectories(''))],
  ['remove', (bucket) => bucket.remove(['there'])],
  ['removeParts', (bucket, key) => bucket.removeParts(key)],
];

describe('AzureBlobBucket', () => {
  let proxy: FaultProxy;
  /** The bucket under test. It uses Azurite through the fault proxy, like `impatient`. */
  let bucket: AzureBlobBucket;
  /** Another `AzureBlobBucket` on the same container, with a short time-out. */
  let impatient: AzureBlobBucket;

  beforeEach(async () => {
    await useNewContainer();
    proxy = await startFaultProxy(server.endpoint);
    const account = through(proxy);
    bucket = bucketWith({ account });
    impatient = bucketWith({ account, timeoutMs: IMPATIENT_MS });
    await bucket.create('there', Buffer.from('there'));
  });
  afterEach(async () => {
    server.resume();
    await proxy.close();
    await client.delete();
  });

  it('begins many calls a few at a time, so that other requests are answered between them', async () => {
    const direct = bucketWith({});
    const calls = () => Promise.all(Array.from({ length: 60 }, (_, index) => direct.create(`key-${index}`, Buffer.from('bytes'))));
    expect(await mostBegunAtOnce(calls)).toBeLessThan(6);
  });

  it('rejects every call while the store does not respond, and works again afterwards', async () => {
    await server.pause();
    expect(await outcomes(impatient, 'during')).toEqual(all(`no progress for ${IMPATIENT_MS} ms`));
    server.resume();
    expect(await outcomes(bucket, 'after')).toEqual(all('resolved'));
  });

  it.each([
    ['refuses connections', 'ECONNREFUSED', () => proxy.refuse()],
    [
      'resets connections',
      'ECONNRESET',
      () => {
        proxy.reset();
        return Promise.resolve();
      },
    ],
    [
      'throttles',
      '503',
      () => {
        proxy.throttle();
        return Promise.resolve();
      },
    ],
  ])('rejects every call while the store %s, and works again afterwards', async (_, reason, spoil) => {
    await spoil();
    expect(await outcomes(bucket, 'during')).toEqual(all(reason));
    await proxy.pass();
    expect(await gather(bucket.list(''))).toMatchObject([{ key: 'there', size: 5 }]);
    expect(await outcomes(bucket, 'after')).toEqual(all('resolved'));
  });

  it('rejects every call when the container does not exist', async () => {
    expect(await outcomes(bucketWith({ container: 'nowhere' }), 'new')).toEqual(all('ContainerNotFound'));
  });

  describe('a lost response', () => {
    it('does not make create find another object', async () => {
      const cut = proxy.cutAnswer({ to: isPut });
      const version = await bucket.create('new', Buffer.from('new'));
      await cut;
      expect(version).toBeTypeOf('string');
      expect(await bucket.read('new')).toMatchObject({ bytes: Buffer.from('new'), version });
    });

    it('does not make replace find another version', async () => {
      const first = await bucket.replace('there', Buffer.from('first'));
      const cut = proxy.cutAnswer({ to: isPut });
      const second = await bucket.replace('there', Buffer.from('second'), first);
      await cut;
      expect(second).toBeTypeOf('string');
      expect(await bucket.read('there')).toMatchObject({ bytes: Buffer.from('second'), version: second });
    });

    it("does not make create accept another writer's object", async () => {
      const cuts = [proxy.cutAnswer({ to: isPut }), proxy.cutAnswer({ to: isPut })];
      expect(await bucket.create('there', Buffer.from('there'))).toBeUndefined();
      await Promise.all(cuts);
      await expect(bucket.upload('there', megabytes(10))).rejects.toThrow(ObjectExistsError);
    });

    it.each([
      ['few bytes', 1, isPut],
      ['a block', 10, isPut],
      ['the commit', 10, isCommit],
    ])('does not make an upload fail (%s)', async (_, count, to) => {
      const cut = proxy.cutAnswer({ to });
      await bucket.upload('new', megabytes(count));
      await cut;
      const expected = Buffer.concat(await gather(megabytes(count)));
      expect((await bucket.read('new'))?.bytes.equals(expected)).toBe(true);
    });

    it('does not make remove fail', async () => {
      const cut = proxy.cutAnswer();
      await bucket.remove(['there']);
      await cut;
      expect(await bucket.read('there')).toBeUndefined();
    });
  });

  it.each([
    ['read', () => bucket.read('long')],
    ['open', async () => gather(await bucket.open('long'))],
    ['list', () => gather(bucket.list(''))],
  ])('%s never returns a part as the whole when the connection is cut', async (_, get) => {
    await bucket.upload('long', megabytes(3));
    const cut = proxy.cutAnswer({ afterBytes: 100 });
    await expect(get()).rejects.toThrow();
    await cut;
    await expect(get()).resolves.toBeDefined();
  });

  it('open rejects when the store stops responding between two pieces', async () => {
    await bucket.upload('long', megabytes(30));
    const pieces = (await impatient.open('long'))?.[Symbol.asyncIterator]();
    await pieces?.next();
    await server.pause();
    await expect(
      (async () => {
        while (!(await pieces?.next())?.done);
      })(),
    ).rejects.toThrow('no progress');
  });

  it.each([
    ['continues', () => Promise.resolve()],
    ['stalls too', (signal: AbortSignal) => once(signal, 'abort')],
  ])('upload rejects when the store stops responding in the middle and the source %s', async (_, next) => {
    const end = new AbortController();
    let given = 0;
    const bytes = (async function* () {
      yield* megabytes(10);
      await server.pause();
      for await (const chunk of megabytes(400)) {
        if (given >= 10) await next(end.signal);
        given++;
        yield chunk;
      }
    })();
    await expect(impatient.upload('new', bytes)).rejects.toThrow('no progress');
    expect(given).toBeLessThan(40);
    end.abort();
    server.resume();
    expect(await bucket.read('new')).toBeUndefined();
    expect(await gather(bucket.list(''))).toMatchObject([{ key: 'there' }]);
    await bucket.removeParts('new');
    await bucket.upload('new', megabytes(10));
    expect((await bucket.read('new'))?.bytes).toHaveLength(10 * MIB);
  });

  it('upload waits longer for its source than for the store', async () => {
    const bytes = (async function* () {
      yield* megabytes(10);
      await delay(IMPATIENT_MS + 100);
      yield* megabytes(1);
    })();
    await impatient.upload('new', bytes);
    expect((await bucket.read('new'))?.bytes).toHaveLength(11 * MIB);
  });

  it('has nothing of a file whose client went away, although it refused a request that was to remove it', async () => {
    const storage = new ObjectStorageFileStorage({ bucket, logger: { warn: () => undefined } });
    const refused = proxy.answer(403, 'AuthorizationPermissionMismatch', { to: ({ method, url }) => method === 'DELETE' && url.includes('files') });
    const bytes = (async function* () {
      yield* megabytes(10);
      throw new Error('The client is gone.');
    })();
    await expect(storage.store(anUploadDraft().with({ bytes }).build())).rejects.toThrow('The client is gone.');
    await refused;
    await storage.close();
    expect(await gather(bucketWith({}).list(''))).toMatchObject([{ key: 'there' }]);
  });

  it('upload uses no more blocks for the maximum size than Azure allows', async () => {
    const most = bucketWith({ maxUploadBytes: 50_000 * 8 * MIB });
    await most.upload('new', megabytes(20));
    const { committedBlocks = [] } = await client.getBlockBlobClient('new').getBlockList('committed');
    expect(committedBlocks.map(({ size }) => size / MIB)).toEqual([8, 8, 4]);
  });
});

it('takes the connection string with either key of the account at the same time, so that one can be replaced', async () => {
  await useNewContainer();
  const [first, second, other] = [server.connectionString, server.secondConnectionString, server.connectionStringWith('b3RoZXI=')].map((connectionString) => bucketWith({ account: { connectionString } }));
  await first?.create('of the first', Buffer.from('1'));
  await second?.create('of the second', Buffer.from('2'));
  for (const bucket of [first, second]) {
    expect((await bucket?.read('of the first'))?.bytes.toString()).toBe('1');
    expect((await bucket?.read('of the second'))?.bytes.toString()).toBe('2');
  }
  await expect(other?.read('of the first')).rejects.toMatchObject({ statusCode: 403 });
  await client.delete();
});

describe('readiness with a shared access signature', () => {
  beforeEach(useNewContainer);
  afterEach(() => client.delete());

  /** The error of a health check with a signature that has these permissions; undefined if the check succeeds. */
  async function healthWith(permissions: string): Promise<unknown> {
    const url = new URL(await client.generateSasUrl({ permissions: ContainerSASPermissions.parse(permissions), expiresOn: new Date(Date.now() + 3_600_000) }));
    const connectionString = `BlobEndpoint=${new URL('.', url).href};SharedAccessSignature=${url.search.slice(1)}`;
    const storage = new ObjectStorageFileStorage({ bucket: bucketWith({ account: { connectionString } }), logger: { warn: () => undefined } });
    const error: unknown = await storage.checkHealth().then(() => undefined, (reason: unknown) => reason);
    await storage.close();
    return error;
  }

  it('succeeds with the rights to read, write, delete and list', async () => {
    expect(await healthWith('rwdl')).toBeUndefined();
  });

  it.each([
    ['read', 'wdl'],
    ['write', 'rdl'],
    ['delete', 'rwl'],
    ['list', 'rwd'],
  ])('fails without the right to %s', async (_, permissions) => {
    expect(await healthWith(permissions)).toMatchObject({ kind: 'storage-failure', cause: { message: expect.stringContaining('not authorized') as string } });
  });
});

/**
 * Runs all operations of a bucket at once. Resolves to the outcome of each as text. Each operation that creates an
 * object uses a key of its own.
 */
const outcomes = (bucket: Bucket, prefix: string): Promise<string[]> =>
  Promise.all(
    OPERATIONS.map(([name, operate]) =>
      operate(bucket, `${prefix} ${name}`).then(
        () => `${name}: resolved`,
        (error: unknown) => {
          const { message, code, statusCode } = error as RestError;
          return `${name}: ${message} ${code} ${statusCode}`;
        },
      ),
    ),
  );
const all = (outcome: string): unknown[] =>
  OPERATIONS.map(([name]): unknown => expect.stringMatching(new RegExp(`^${name}: [^]*${outcome}`)));

const isPut = ({ method }: { method: string }): boolean => method === 'PUT';
const isCommit = ({ url }: { url: string }): boolean => url.includes('comp=blocklist');

async function* megabytes(count: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index++) {
    yield await Promise.resolve(Buffer.alloc(MIB, index + 1));
  }
}

async function gather<Item>(items: AsyncIterable<Item> | undefined): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items ?? []) all.push(item);
  return all;
}
