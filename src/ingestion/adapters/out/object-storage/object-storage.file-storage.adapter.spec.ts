import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { deferred } from '../../../../../test/support/deferred.js';
import { DAY_MS } from '../../../../common/durations.js';
import { BucketView } from '../../../../testing/bucket.view.js';
import { eventOutboxContract } from '../../../../testing/event-outbox.contract.js';
import { fileStorageContract, type FileStorageContractSubject } from '../../../../testing/file-storage.contract.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { storedUploadsContract } from '../../../../testing/stored-uploads.contract.js';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import type { UploadDraft, UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { UploadLoadData, type UploadLoadDataCommand } from '../../../application/upload-load-data.use-case.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from '../../../../testing/upload-draft.builder.js';
import { type Bucket, StoreSilentError } from './bucket.js';
import { compactDay } from './compaction.js';
import { ObjectStorageFileStorage } from './object-storage.file-storage.adapter.js';
import { Sweeper } from './sweeper.js';

const logger = { warn: () => undefined };
const open = (bucket: Bucket) => new ObjectStorageFileStorage({ bucket, logger });

const setUp = (): Promise<FileStorageContractSubject> => {
  const bucket = new InMemoryBucket();
  const view = new BucketView(bucket.another());
  let storage = open(bucket);
  return Promise.resolve({
    storage,
    isInMemory: true,
    reopen: async () => {
      await storage.close();
      return (storage = open(bucket));
    },
    lines: () => view.lines(),
    bytes: (path) => view.bytes(path),
    contentPaths: () => view.contentPaths(),
    storeEarlier: async (draft, ageMs) => {
      const earlier = bucket.another();
      earlier.aheadMs = -ageMs;
      const before = open(earlier);
      await before.store({ ...draft, conclude: async (stored) => ({ ...(await draft.conclude(stored)), receivedAt: new Date(earlier.now) }) });
      await before.close();
    },
    tearDown: () => storage.close(),
  });
};
fileStorageContract('object storage, in memory', setUp);
storedUploadsContract('object storage, in memory', setUp);
eventOutboxContract('object storage, in memory', setUp);

/** The first chunk of a file that is too long to share a marker and a segment. */
const LONG = 'the '.padStart(100_000);
const KEYED = { idempotencyKey: 'key', customerId: 'customer-1' };
const UPLOADS: [string, boolean, () => UploadDraftBuilder][] = [
  ['a small file', false, () => anUploadDraft().file('the ', 'bytes')],
  ['a longer file', false, () => anUploadDraft().file(LONG, 'bytes')],
  ['a file under a key', true, () => anUploadDraft().with(KEYED).file('the ', 'bytes')],
  ['no file, under a key', true, () => anUploadDraft().with(KEYED)],
];

/** No upload takes more operations on the bucket than this, including those after its acknowledgement. */
const MAX_OPERATIONS = 8;

/**
 * The bucket as another process sees it 61 seconds later by the store's clock. A lease that wasn't renewed has then
 * expired.
 */
function later(bucket: InMemoryBucket): InMemoryBucket {
  const another = bucket.another();
  another.aheadMs = 61_000;
  return another;
}

/**
 * The bucket as another process sees it 20 minutes later by the store's clock. Requests of a failed upload can't reach
 * the store any more then.
 */
function muchLater(bucket: InMemoryBucket): InMemoryBucket {
  const another = bucket.another();
  another.aheadMs = 20 * 60_000;
  return another;
}

/**
 * Pauses a process until `goOn` is called: before or after the operation on the bucket that follows its first `count`
 * operations. Listings don't count.
 */
function pauseAt(bucket: InMemoryBucket, count: number, moment: 'before' | 'after') {
  let done = 0;
  const gate = deferred();
  const reached = deferred();
  bucket[moment] = (operation) => {
    if (operation === 'list' || ++done <= count) return;
    reached.resolve();
    return gate.promise;
  };
  return { reached: reached.promise, goOn: gate.resolve };
}

/** Pauses a process before its first operation of a kind on the bucket, until `goOn` is called. */
function pauseAtFirst(bucket: InMemoryBucket, kind: keyof Bucket) {
  const gate = deferred();
  const reached = deferred();
  bucket.before = (operation) => {
    if (operation !== kind) return;
    reached.resolve();
    return gate.promise;
  };
  return { reached: reached.promise, goOn: gate.resolve };
}

/** A file whose client pauses in the middle of the bytes until `goOn` is called. */
function pausedFile(first = LONG) {
  const gate = deferred();
  const begun = deferred();
  async function* bytes() {
    yield Buffer.from(first);
    begun.resolve();
    await gate.promise;
    yield Buffer.from('bytes');
  }
  return { bytes: bytes(), begun: begun.promise, goOn: gate.resolve };
}

async function expectWhole(view: BucketView, count?: number): Promise<void> {
  const lines = await view.lines();
  expect(await view.contentPaths()).toEqual(lines.flatMap(({ content_path }) => content_path ?? []).sort());
  for (const { content_path } of lines) if (content_path) expect(String(await view.bytes(content_path)).trim()).toBe('the bytes');
  if (count !== undefined) expect(lines).toHaveLength(count);
}

describe.each(UPLOADS)('an upload with %s', (_, isKeyed, builder) => {
  describe.each(['before', 'after'] as const)('of a process that crashes %s', (moment) => {
    it.each(Array.from({ length: MAX_OPERATIONS }, (__, count) => count))(
      'operation %i is stored completely or not at all after another process has swept, and can be repeated',
      async (count) => {
        const bucket = new InMemoryBucket();
        const { reached, goOn } = pauseAt(bucket, count, moment);
        const storage = open(bucket);
        const storing = Promise.allSettled([storage.store(builder().build())]);
        await Promise.race([reached, storing]);

        const other = later(bucket);
        const view = new BucketView(other);
        await new Sweeper(other, logger).sweep();
        await expectWhole(view);
        const before = (await view.lines()).length;
        const repeated = await open(other).store(builder().build());
        await expectWhole(view, repeated.replayed ? before : before + 1);

        // The process that seemed to have crashed was only paused, and continues.
        goOn();
        const [outcome] = await storing;
        await storage.close();
        await new Sweeper(later(bucket), logger).sweep();
        await expectWhole(view);
        await new Sweeper(muchLater(bucket), logger).sweep();
        await expectWhole(view);
        expect(await view.keys('staging/')).toEqual([]);
        const ids = (await view.lines()).map(({ upload_id }) => upload_id);
        if (outcome.status === 'fulfilled') expect(ids).toContain(outcome.value.uploadId);
        if (isKeyed || outcome.status === 'rejected') expect(ids).toEqual([repeated.uploadId]);
      },
    );
  });

  it.each(Array.from({ length: MAX_OPERATIONS }, (__, count) => count))(
    'leaves nothing if it is rejected because operation %i failed after taking effect',
    async (count) => {
      const bucket = new InMemoryBucket();
      let done = 0;
      bucket.after = (operation) => {
        if (operation !== 'list' && done++ === count) throw new Error('lost');
      };
      const storage = open(bucket);
      const outcome = await storage.store(builder().build()).catch((error: unknown) => error);
      await storage.close();
      const other = later(bucket);
      await new Sweeper(other, logger).sweep();
      const view = new BucketView(other);
      if (outcome instanceof Error) expect(outcome).toMatchObject({ kind: 'storage-failure' });
      await expectWhole(view, outcome instanceof Error ? 0 : 1);
      expect(await open(other).store(builder().build())).toBeDefined();
    },
  );
});

describe('each write of index lines is reported', () => {
  it.each<(typeof UPLOADS)[number]>([['no file', false, () => anUploadDraft()], ...UPLOADS])('of an upload with %s', async (_, isKeyed, builder) => {
    const bucket = new InMemoryBucket();
    const flushes: IndexFlush[] = [];
    const storage = new ObjectStorageFileStorage({ bucket, logger, onFlush: (flush) => flushes.push(flush) });
    onTestFinished(() => storage.close());
    await storage.store(builder().build());
    bucket.before = (operation, key) => {
      if (operation === 'create' && key.startsWith('uploads/')) throw new Error('no answer');
    };
    await expect(storage.store((isKeyed ? builder().with({ idempotencyKey: 'another' }) : builder()).build())).rejects.toThrow();
    bucket.before = () => undefined;
    expect(flushes).toEqual([
      { lines: 1, seconds: expect.any(Number) as number, ok: true },
      { lines: 1, seconds: expect.any(Number) as number, ok: false },
    ]);
  });
});

describe('uploads without a file', () => {
  it('share segments while they wait, and none waits for a timer', async () => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    await Promise.all(Array.from({ length: 100 }, () => storage.store(anUploadDraft().build())));
    const view = new BucketView(bucket);
    expect(await view.lines()).toHaveLength(100);
    expect((await view.keys('uploads/')).length).toBeLessThanOrEqual(8);
    await storage.close();
  });

  it('are all undone when the response for their segment is lost', async () => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    bucket.after = (operation) => {
      if (operation === 'create') throw new Error('lost');
    };
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => storage.store(anUploadDraft().build())));
    for (const outcome of outcomes) expect(outcome).toMatchObject({ status: 'rejected', reason: { kind: 'storage-failure' } });
    await storage.close();
    expect(await new BucketView(bucket).lines()).toEqual([]);
  });

  it('are refused together when the store does not respond, because those in the queue have waited as long', async () => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    const silent = deferred();
    let asked = 0;
    bucket.before = async (operation) => {
      if (operation !== 'create') return;
      asked += 1;
      await silent.promise;
      throw new StoreSilentError(1);
    };
    const storing = Promise.allSettled(Array.from({ length: 128 }, () => storage.store(anUploadDraft().build())));
    await expect.poll(() => asked).toBe(4);
    silent.resolve();
    for (const outcome of await storing) expect(outcome).toMatchObject({ status: 'rejected', reason: { kind: 'storage-failure' } });
    expect(asked).toBe(4);
    await storage.close();
  });

  it('are refused while too many outcomes are unknown, and accepted when the store is healthy again', async () => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    bucket.before = () => {
      throw new Error('down');
    };
    for (let count = 0; count < 100; count++) await storage.store(anUploadDraft().build()).catch(() => undefined);
    await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
    bucket.before = () => undefined;
    await expect.poll(() => storage.store(anUploadDraft().build()).then(() => true, () => false), { timeout: 10_000 }).toBe(true);
    await storage.close();
    const [line, ...more] = await new BucketView(bucket).lines();
    expect(line).toBeDefined();
    expect(more).toEqual([]);
  });
});

describe('small files', () => {
  /** How many writes are in progress at once. A further upload waits, and shares what it takes with others that wait. */
  const AT_ONCE = 4;
  const storeMany = (storage: ObjectStorageFileStorage, count: number) =>
    Promise.allSettled(Array.from({ length: count }, () => storage.store(anUploadDraft().file('the ', 'bytes').build())));

  it('share markers and segments while they wait, and none waits for a timer', async () => {
    const bucket = new InMemoryBucket();
    const written: string[] = [];
    bucket.before = (operation, key) => {
      if (operation === 'create' || operation === 'upload') written.push(key.slice(0, key.indexOf('/')));
    };
    const storage = open(bucket);
    // Four alone, and then 196 with 64 at most.
    await storeMany(storage, 200);
    await storage.close();
    const view = new BucketView(bucket);
    await expectWhole(view, 200);
    expect(await view.keys('staging/')).toEqual([]);
    const counts = ['files', 'staging', 'uploads'].map((directory) => written.filter((each) => each === directory).length);
    expect(counts).toEqual([200, 8, 8]);
  });

  describe.each(['before', 'after'] as const)('of a process that crashes %s', (moment) => {
    it.each(Array.from({ length: 32 }, (_, count) => count))('operation %i are stored completely or not at all after another process has swept', async (count) => {
      const bucket = new InMemoryBucket();
      const { reached, goOn } = pauseAt(bucket, count, moment);
      const storage = open(bucket);
      const storing = storeMany(storage, AT_ONCE + 4);
      await Promise.race([reached, storing]);
      const other = later(bucket);
      const view = new BucketView(other);
      await new Sweeper(other, logger).sweep();
      await expectWhole(view);

      goOn();
      const outcomes = await storing;
      await storage.close();
      await new Sweeper(later(bucket), logger).sweep();
      await expectWhole(view);
      await new Sweeper(muchLater(bucket), logger).sweep();
      const stored = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value.uploadId] : []));
      expect((await view.lines()).map(({ upload_id }) => upload_id).sort()).toEqual(stored.sort());
      await expectWhole(view, stored.length);
      expect(await view.keys('staging/')).toEqual([]);
    });
  });

  /**
   * Stores five small files that share a marker, after four others. The writes of the first ones of the five end when
   * `end` is called.
   */
  async function withStraggler(mine: InMemoryBucket, storage: ObjectStorageFileStorage, count = 1) {
    const [early, straggling] = [deferred(), deferred()];
    const asked: string[] = [];
    let failure: Error | undefined;
    mine.before = async (operation, key) => {
      if (operation !== 'upload') return;
      if (asked.push(key) <= AT_ONCE) return early.promise;
      if (asked.length > AT_ONCE + count) return;
      await straggling.promise;
      if (failure) throw failure;
    };
    const outcomes = Array.from({ length: AT_ONCE + 5 }, () => outcomeOf(storage.store(anUploadDraft().file('the ', 'bytes').build())));
    await vi.waitFor(() => { expect(asked).toHaveLength(AT_ONCE); });
    early.resolve();
    await vi.waitFor(() => { expect(asked).toHaveLength(AT_ONCE + 5); });
    const end = (error?: Error): void => {
      failure = error;
      straggling.resolve();
    };
    return { path: asked[AT_ONCE] ?? '', straggler: outcomes[AT_ONCE], others: outcomes.filter((_, index) => index !== AT_ONCE), end };
  }

  const outcomeOf = (storing: Promise<UploadReceipt>) => storing.then(() => 'stored', (error: unknown) => error);
  const allOf = async (outcomes: readonly Promise<unknown>[]) => [...new Set(await Promise.all(outcomes))];

  it.each([
    ['fails', () => new Error('ECONNRESET')],
    ['is not answered', () => new StoreSilentError(1)],
  ])('are stored when the write of another one that they share a marker with %s, and nothing of that one is left, even if its bytes arrive late', async (_, failure) => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const { path, straggler, others, end } = await withStraggler(mine, storage);
    end(failure());
    expect(await straggler).toMatchObject({ kind: 'storage-failure' });
    expect(await allOf(others)).toEqual(['stored']);
    await storage.close();
    const view = new BucketView(bucket);
    await expectWhole(view, AT_ONCE + 4);
    await bucket.create(path, Buffer.from('the bytes'));
    await new Sweeper(muchLater(bucket), logger).sweep();
    await expectWhole(view, AT_ONCE + 4);
    expect(await view.keys('staging/')).toEqual([]);
  });

  describe('that share a marker with one whose write takes more than a second longer', () => {
    beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
    afterEach(() => vi.useRealTimers());

    async function begin() {
      const bucket = new InMemoryBucket();
      const mine = bucket.another();
      const storage = open(mine);
      const storing = await withStraggler(mine, storage);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await allOf(storing.others)).toEqual(['stored']);
      return { bucket, mine, storage, ...storing, view: new BucketView(bucket) };
    }

    it.each([
      ['is stored too, even after its turn', undefined, 1],
      ['leaves nothing when it fails', new Error('ECONNRESET'), 0],
    ])('are stored before it, and it %s', async (_, failure, more) => {
      const { straggler, end, storage, view } = await begin();
      expect(await view.keys('staging/')).toHaveLength(1);
      end(failure);
      expect(await straggler).toEqual(failure ? expect.objectContaining({ kind: 'storage-failure' }) : 'stored');
      await storage.close();
      await expectWhole(view, AT_ONCE + 4 + more);
    });

    it('stay when the process crashes, and nothing of that one is left', async () => {
      const { bucket, straggler, end, storage, view } = await begin();
      await new Sweeper(later(bucket), logger).sweep();
      await expectWhole(view, AT_ONCE + 4);
      // The process was only paused.
      end();
      expect(await straggler).toMatchObject({ kind: 'storage-failure' });
      await storage.close();
      await new Sweeper(muchLater(bucket), logger).sweep();
      await expectWhole(view, AT_ONCE + 4);
      expect(await view.keys('staging/')).toEqual([]);
    });
  });

  it.each<[string, (operation: keyof Bucket, key: string) => boolean]>([
    ['its own marker is not written', (operation, key) => operation === 'create' && key.startsWith('staging/')],
    ['the shared marker is not rewritten', (operation, key) => operation === 'replace' && key.startsWith('staging/')],
  ])('are undone together with one that fails, when %s', async (_, isConcerned) => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const { straggler, others, end } = await withStraggler(mine, storage);
    let isFailing = true;
    mine.before = (operation, key) => {
      if (!isConcerned(operation, key) || !isFailing) return;
      isFailing = false;
      throw new StoreSilentError(1);
    };
    end(new Error('ECONNRESET'));
    for (const outcome of [straggler, ...others.slice(AT_ONCE)]) expect(await outcome).toMatchObject({ kind: 'storage-failure' });
    await storage.close();
    await expectWhole(new BucketView(bucket), AT_ONCE);
    await new Sweeper(muchLater(bucket), logger).sweep();
    await expectWhole(new BucketView(bucket), AT_ONCE);
    expect(await new BucketView(bucket).keys('staging/')).toEqual([]);
  });

  it('wait for those that share their marker while the store is slow with most of them', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const { straggler, others, end } = await withStraggler(mine, storage, 3);
    await vi.advanceTimersByTimeAsync(5_000);
    end();
    expect(await allOf([...others, ...(straggler ? [straggler] : [])])).toEqual(['stored']);
    await storage.close();
    const view = new BucketView(bucket);
    await expectWhole(view, AT_ONCE + 5);
    expect(await view.keys('uploads/')).toHaveLength(AT_ONCE + 1);
  });

  it('are stored once each when the slow one is written while it gets a marker of its own', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const { straggler, others, end } = await withStraggler(mine, storage);
    const { before } = mine;
    const [marking, marked] = [deferred(), deferred()];
    mine.before = (operation, key) => {
      if (operation !== 'create' || !key.startsWith('staging/')) return before(operation, key);
      marking.resolve();
      return marked.promise;
    };
    await vi.advanceTimersByTimeAsync(1_000);
    await marking.promise;
    end();
    await new Promise(setImmediate);
    marked.resolve();
    expect(await allOf([...others, ...(straggler ? [straggler] : [])])).toEqual(['stored']);
    await storage.close();
    const view = new BucketView(bucket);
    await expectWhole(view, AT_ONCE + 5);
    expect(await view.keys('staging/')).toEqual([]);
  });

  it('are refused together when the store does not respond', async () => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    const silent = deferred();
    let asked = 0;
    bucket.before = async (operation, key) => {
      if (operation !== 'create' || !key.startsWith('staging/')) return;
      asked += 1;
      if (asked <= AT_ONCE) return;
      await silent.promise;
      throw new StoreSilentError(1);
    };
    const storing = storeMany(storage, AT_ONCE + AT_ONCE * 64 + 100);
    await vi.waitFor(() => { expect(asked).toBe(2 * AT_ONCE); });
    silent.resolve();
    const outcomes = await storing;
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(AT_ONCE);
    expect(asked).toBe(2 * AT_ONCE);
    await storage.close();
  });

  it('do not wait for others that are alone and take long', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const slow = deferred();
    let uploads = 0;
    mine.before = (operation) => (operation === 'upload' && ++uploads <= AT_ONCE ? slow.promise : undefined);
    const first = storeMany(storage, AT_ONCE);
    await vi.waitFor(() => { expect(uploads).toBe(AT_ONCE); });
    const next = storeMany(storage, 3);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await next).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }, { status: 'fulfilled' }]);
    slow.resolve();
    expect((await first).map(({ status }) => status)).toEqual(Array.from({ length: AT_ONCE }, () => 'fulfilled'));
    await storage.close();
    await expectWhole(new BucketView(bucket), AT_ONCE + 3);
  });

  it('keep the file of one that has continued alone, when all others of their marker are removed before a sweep', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const { path, straggler, others, end } = await withStraggler(mine, storage);
    const { before } = mine;
    mine.before = (operation, key) => {
      if (operation === 'remove') throw new Error('crashed');
      return before(operation, key);
    };
    await vi.advanceTimersByTimeAsync(1_000);
    await Promise.all(others);
    end();
    expect(await straggler).toBe('stored');
    await storage.close();
    const view = new BucketView(bucket);
    const other = open(bucket.another());
    for (const { upload_id: id, content_path: contentPath } of await view.lines()) if (contentPath !== path) await other.storedUploads.remove(id);
    await expectWhole(view, 1);
    for (const sweptAt of [later(bucket), muchLater(bucket)]) {
      await new Sweeper(sweptAt, logger).sweep();
      await expectWhole(view, 1);
    }
    expect(await view.keys('staging/')).toEqual([]);
    await other.close();
  });

  it('of clients that are slow or hang up leave nothing in the store meanwhile', async () => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    const { bytes, begun, goOn } = pausedFile('the ');
    const storing = storage.store(anUploadDraft().with({ bytes }).build());
    await begun;
    async function* gone() {
      yield await Promise.resolve(Buffer.from('the '));
      throw new Error('gone');
    }
    await expect(storage.store(anUploadDraft().with({ bytes: gone() }).build())).rejects.toThrow('gone');
    for (const prefix of ['files/', 'staging/', 'uploads/']) expect(await new BucketView(bucket).keys(prefix)).toEqual([]);
    goOn();
    await storing;
    await storage.close();
    await expectWhole(new BucketView(bucket), 1);
  });
});

describe('markers of uploads with a file', () => {
  it.each([['succeeds'], ['fails']])('are removed together when the uploads end while the removal of another one %s', async (outcome) => {
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    const first = deferred();
    let removals = 0;
    bucket.before = async (operation) => {
      if (operation !== 'remove' || ++removals > 1) return;
      await first.promise;
      if (outcome === 'fails') throw new Error('ETIMEDOUT');
    };
    await storeUpload(storage, anUploadDraft().file('bytes').build());
    await vi.waitFor(() => { expect(removals).toBe(1); });
    const left = bucket.keys.filter((key) => key.startsWith('staging/'));
    for (let number = 0; number < 20; number++) await storeUpload(storage, anUploadDraft().file('bytes').build());
    first.resolve();
    await storage.close();
    expect(removals).toBe(2);
    expect(bucket.keys.filter((key) => key.startsWith('staging/'))).toEqual(outcome === 'fails' ? left : []);
  });
});

describe('a store that carries out a request late, after it gave no answer', () => {
  const LATE: [string, string][] = [
    ['a marker', 'staging/'],
    ['a file', 'files/'],
    ['a line', 'uploads/'],
    ['a claim', 'idempotency/'],
  ];

  describe.each(UPLOADS)('and an upload with %s', (name, isKeyed, builder) => {
    const hasFile = !name.startsWith('no file');
    const concerned = LATE.filter(([, prefix]) => (isKeyed || prefix !== 'idempotency/') && (hasFile || !['files/', 'staging/'].includes(prefix)));
    // After 5 minutes, the sweeper has already removed the upload once. It must not assume that nothing of the upload
    // arrives later.
    const times = concerned.flatMap(([what, prefix]) => [0, 5].map((minutes) => [what, minutes, prefix] as const));
    it.each(times)('leaves nothing of the upload when %s arrives %i minutes late', async (__, lateBy, prefix) => {
      const bucket = new InMemoryBucket();
      const mine = bucket.another();
      const late = bucket.another();
      const asked: { key: string; bytes: Buffer }[] = [];
      mine.before = (of, key, bytes) => {
        if (!['create', 'upload'].includes(of) || !key.startsWith(prefix) || asked.length > 0) return;
        asked.push({ key, bytes: Buffer.from(bytes ?? []) });
        throw new StoreSilentError(1);
      };
      const storage = open(mine);
      const outcome = await storage.store(builder().build()).catch((error: unknown) => error);
      await storage.close();
      expect(asked).toHaveLength(1);
      expect(outcome).toMatchObject({ kind: 'storage-failure' });

      const last = bucket.another();
      last.aheadMs = 2 * 60_000;
      if (lateBy > 2) await new Sweeper(last, logger).sweep();
      late.aheadMs = lateBy * 60_000;
      for (const { key, bytes } of asked) await late.create(key, bytes);
      for (const minutes of [lateBy + 2, 20, 60]) {
        last.aheadMs = minutes * 60_000;
        await new Sweeper(last, logger).sweep();
      }
      const view = new BucketView(last);
      await expectWhole(view, 0);
      expect(await view.keys('staging/')).toEqual([]);
      const repeated = await open(last).store(builder().build());
      expect(repeated).not.toMatchObject({ replayed: true });
      await expectWhole(view, 1);
    });
  });
});

describe('a process that is paused until the marker of its upload has been removed', () => {
  it('keeps an upload whose line a sweeper has found, and answers a repeated request with its receipt', async () => {
    const bucket = new InMemoryBucket();
    const view = new BucketView(bucket);
    const mine = bucket.another();
    const request = () => anUploadDraft().with(KEYED).file('the ', 'bytes').build();
    mine.before = async (operation, key, bytes) => {
      if (operation !== 'create' || !key.startsWith('uploads/')) return;
      await bucket.create(key, bytes ?? Buffer.alloc(0));
      await new Sweeper(later(bucket), logger).sweep();
      throw new StoreSilentError(1);
    };
    const storage = open(mine);
    await expect(storage.store(request())).rejects.toMatchObject({ kind: 'storage-failure' });
    await storage.close();
    await expectWhole(view, 1);
    const other = open(bucket.another());
    expect(await other.store(request())).toMatchObject({ replayed: true });
    await other.close();
    await expectWhole(view, 1);
  });

  it.each([
    ['small', 'the '],
    ['longer', LONG],
  ])('writes the marker again, so that a %s file that arrives late is removed', async (_, first) => {
    // The process is paused after the file's bytes have arrived, and this machine's clock stands still. If time passed
    // and made the upload slow, the process would rewrite the marker with another segment, and so find out earlier that
    // the marker is gone.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 0, 1, 12) });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const bucket = new InMemoryBucket();
    const view = new BucketView(bucket);
    const mine = bucket.another();
    const late: { key: string; bytes: Buffer }[] = [];
    const gate = deferred();
    const begun = deferred();
    mine.before = async (operation, key, bytes) => {
      if (!key.startsWith('files/') || operation === 'remove') return;
      begun.resolve();
      await gate.promise;
      late.push({ key, bytes: Buffer.from(bytes ?? []) });
      throw new StoreSilentError(1);
    };
    const storage = open(mine);
    const storing = Promise.allSettled([storage.store(anUploadDraft().file(first, 'bytes').build())]);
    await begun.promise;
    await expect.poll(() => view.keys('staging/')).toHaveLength(1);
    const sweepAfter = async (minutes: number) => {
      const last = bucket.another();
      last.aheadMs = minutes * 60_000;
      await new Sweeper(last, logger).sweep();
    };
    for (const minutes of [2, 20]) await sweepAfter(minutes);
    expect(await view.keys('staging/')).toEqual([]);

    mine.aheadMs = 20 * 60_000;
    gate.resolve();
    expect(await storing).toMatchObject([{ status: 'rejected', reason: { kind: 'storage-failure' } }]);
    await storage.close();
    expect(late).toHaveLength(1);
    for (const { key, bytes } of late) await bucket.create(key, bytes);
    await sweepAfter(40);
    await expectWhole(view, 0);
    expect(await view.keys('staging/')).toEqual([]);
  });
});

describe('replicas whose clocks are wrong', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A store with one clock, and replicas whose own clocks differ from it by `offsMs` milliseconds. */
  const world = (now: number, offsMs: readonly number[]) => {
    vi.useFakeTimers({ toFake: ['Date'], now });
    const store = { now };
    const bucket = new InMemoryBucket();
    bucket.time = () => store.now;
    const replicas = offsMs.map((offMs) => {
      const mine = bucket.another();
      const setClock = () => void vi.setSystemTime(store.now + offMs);
      const written: string[] = [];
      mine.before = (operation, key) => {
        if (['create', 'replace', 'upload'].includes(operation)) written.push(`${operation} ${key.slice(0, key.indexOf('/'))}`);
        setClock();
      };
      mine.after = setClock;
      const storage = open(mine);
      const additionalData = () => {
        setClock();
        return null;
      };
      const keep = (command: Partial<UploadLoadDataCommand> = {}) => {
        setClock();
        return new UploadLoadData(storage).execute({ kind: 'historical', ...KEYED, filename: 'load.csv', manufacturer: 'Acme', file: null, additionalData, ...command });
      };
      return { offMs, keep, storage, written };
    });
    return { store, bucket, replicas, close: () => Promise.all(replicas.map(({ storage }) => storage.close())) };
  };
  const aFile = () => ({ contentType: 'text/csv', bytes: Readable.from([Buffer.from('the bytes')]), expectedSha256: [] });

  it.each([2 * DAY_MS, -2 * DAY_MS, 20 * 60_000, 400 * DAY_MS])('answer a repeated request with the first receipt when off by %i ms', async (offMs) => {
    const now = Date.parse('2026-03-10T12:00:00Z');
    const { store, bucket, replicas, close } = world(now, [0, offMs]);
    for (const turn of [replicas, [...replicas].reverse()]) {
      const [first, second] = turn;
      const command = () => ({ idempotencyKey: `key-${first?.offMs}`, file: aFile() });
      store.now = now;
      expect(await first?.keep(command())).toMatchObject({ replayed: false });
      for (const afterMs of [60_000, 23.9 * 3_600_000]) {
        store.now = now + afterMs;
        expect(await second?.keep(command())).toMatchObject({ replayed: true });
      }
      store.now = now + 24.1 * 3_600_000;
      expect(await second?.keep(command())).toMatchObject({ replayed: false });
    }
    const lines = await new BucketView(bucket).lines();
    const minutes = lines.map((line) => ('received_at' in line ? String(line.received_at).slice(0, 16) : ''));
    expect(minutes.sort()).toEqual(['2026-03-10T12:00', '2026-03-10T12:00', '2026-03-11T12:06', '2026-03-11T12:06']);
    for (const prefix of ['uploads/', 'files/']) for (const key of await new BucketView(bucket).keys(prefix)) expect(key).toMatch(/date=2026-03-1[01]\//);
    await close();
  });

  it.each([DAY_MS, -DAY_MS, 20 * 60_000, -400 * DAY_MS])('store uploads that any replica finds by their ids when off by %i ms', async (offMs) => {
    const { store, replicas, close } = world(Date.parse('2026-03-10T23:30:00Z'), [offMs, 0]);
    const [first] = replicas;
    const receipts = [await first?.keep({ idempotencyKey: null }), await first?.keep({ idempotencyKey: null, file: aFile() }), await first?.keep()];
    for (const afterMs of [0, 3_600_000]) {
      store.now += afterMs;
      for (const receipt of receipts) {
        for (const { storage } of replicas) expect(await storage.storedUploads.find(receipt?.uploadId ?? '')).toMatchObject({ uploadId: receipt?.uploadId });
      }
    }
    await close();
  });

  it('store exactly one of five simultaneous uploads under a key', async () => {
    const { bucket, replicas, close } = world(Date.parse('2026-03-10T12:00:00Z'), [0, 2, -2, 30, -30].map((days) => days * DAY_MS));
    const race = () => Promise.allSettled(replicas.map(({ keep }) => keep({ file: aFile() })));
    await race();
    for (const outcome of await race()) expect(outcome).toMatchObject({ status: 'fulfilled', value: { replayed: true } });
    await expectWhole(new BucketView(bucket), 1);
    await close();
  });

  it.each([2 * DAY_MS, 20 * 60_000])('write segments that compaction merges when off by %i ms', async (offMs) => {
    const { store, bucket, replicas, close } = world(Date.parse('2026-03-10T23:50:00Z'), [offMs]);
    for (let count = 0; count < 3; count++) await replicas[0]?.keep({ idempotencyKey: null });
    await close();
    store.now += 2 * DAY_MS;
    vi.setSystemTime(store.now);
    expect(await compactDay(bucket, 'historical', '2026-03-10')).toMatchObject({ sources: 3, targets: 1 });
    await expectWhole(new BucketView(bucket), 3);
  });

  it('write as many objects for an upload as a replica whose clock is right', async () => {
    const { replicas, close } = world(Date.parse('2026-03-10T12:00:00Z'), [0, 2 * DAY_MS, -2 * DAY_MS]);
    for (const { offMs, keep } of replicas) await keep({ idempotencyKey: `key-${offMs}`, file: aFile() });
    await close();
    const [first, ...others] = replicas.map(({ written }) => written.sort());
    for (const other of others) expect(other).toEqual(first);
  });

  it('find a key whose upload began before midnight and ended after it', async () => {
    const midnight = Date.parse('2026-03-11T00:00:00Z');
    vi.useFakeTimers({ toFake: ['Date'], now: midnight - 8_000 });
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    const { bytes, begun, goOn } = pausedFile('the ');
    const repeated = () => anUploadDraft().with(KEYED).file('the bytes').build();
    const storing = storage.store({ ...anUploadDraft().with({ ...KEYED, bytes, receivedAt: new Date(midnight + 6_000) }).build() });
    await begun;
    vi.setSystemTime(midnight + 6_000);
    goOn();
    const first = await storing;
    expect(await storage.store(repeated())).toEqual({ ...first, replayed: true });
    const other = open(bucket.another());
    expect(await other.store(repeated())).toEqual({ ...first, replayed: true });
    await expectWhole(new BucketView(bucket), 1);
    await Promise.all([storage.close(), other.close()]);
  });
});

describe('readiness', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each(['replace', 'read', 'list', 'remove', 'removeParts'] as const)('fails without the right to %s, and recovers with it', async (right) => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const bucket = new InMemoryBucket();
    const storage = open(bucket);
    bucket.before = (operation, key) => {
      if (operation === right && key.startsWith('health')) throw new Error('denied');
    };
    const failed = await storage.checkHealth().catch((error: unknown) => error);
    expect(failed).toMatchObject({ kind: 'storage-failure', cause: { message: expect.stringContaining('denied') as string } });
    bucket.before = () => undefined;
    // The result of a health check is cached for a second.
    vi.advanceTimersByTime(1_000);
    await storage.checkHealth();
    await storage.close();
  });

  it('checks rights again only once a minute after a success', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const bucket = new InMemoryBucket();
    const asked: string[] = [];
    bucket.before = (operation, key) => {
      if (key.startsWith('health')) asked.push(operation);
    };
    const storage = open(bucket);
    const asksAfter = async (ms: number) => {
      vi.advanceTimersByTime(ms);
      await storage.checkHealth();
      return ['replace', 'remove'].map((operation) => asked.filter((one) => one === operation).length);
    };
    expect(await asksAfter(0)).toEqual([1, 1]);
    // The result of a health check is cached for a second.
    expect(await asksAfter(2_000)).toEqual([2, 1]);
    expect(await asksAfter(60_000)).toEqual([3, 2]);
    await storage.close();
  });
});

describe('two processes on one bucket', () => {
  it.each<[string, () => UploadDraftBuilder]>([
    ['a file', () => anUploadDraft().file('the bytes')],
    ['no file', () => anUploadDraft()],
  ])('find, list, read and remove what the other one has just stored with %s', async (_, builder) => {
    const bucket = new InMemoryBucket();
    const [one, other] = [open(bucket.another()), open(bucket.another())];
    for (let count = 0; count < 3; count++) {
      const upload = await storeUpload(one, builder().build());
      const { storedUploads } = other;
      expect(await storedUploads.find(upload.uploadId)).toEqual(upload);
      expect((await storedUploads.list({}, 10)).uploads).toEqual([upload]);
      const pieces = await storedUploads.openContent(upload);
      for await (const piece of pieces ?? []) expect(Buffer.from(piece).toString()).toBe('the bytes');
      expect(pieces === undefined).toBe(upload.content === null);
      expect(await storedUploads.remove(upload.uploadId)).toBe(true);
      expect(await one.storedUploads.find(upload.uploadId)).toBeUndefined();
      expect((await one.storedUploads.list({}, 10)).uploads).toEqual([]);
    }
    await Promise.all([one.close(), other.close()]);
  });

  it.each([
    ['without a file', () => anUploadDraft().with(KEYED)],
    ['with a file', () => anUploadDraft().with(KEYED).file('the bytes')],
  ])('do not undo an upload that a repeated request was answered with (%s)', async (_, builder) => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    let isAway = false;
    mine.after = (operation, key) => {
      isAway ||= operation === 'create' && key.startsWith('uploads/');
      if (isAway) throw new Error('lost');
    };
    mine.before = () => {
      if (isAway) throw new Error('down');
    };
    await expect(storage.store(builder().build())).rejects.toMatchObject({ kind: 'storage-failure' });
    const other = open(bucket.another());
    expect(await other.store(builder().build())).toMatchObject({ replayed: true });

    mine.after = () => undefined;
    mine.before = () => undefined;
    await Promise.all([storage.close(), other.close()]);
    await new Sweeper(later(bucket), logger).sweep();
    await expectWhole(new BucketView(bucket), 1);
  });

  it('store an upload again that the first process is about to undo, and keep exactly one', async () => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const goOn = deferred();
    let isLost = false;
    mine.after = (operation, key) => {
      if (operation !== 'create' || !key.startsWith('uploads/')) return;
      isLost = true;
      throw new Error('lost');
    };
    // The process writes `failed` to the claim of its upload, and then pauses.
    mine.before = (operation, key) => (isLost && (operation !== 'replace' || !key.startsWith('idempotency/')) ? goOn.promise : undefined);
    const draft = () => anUploadDraft().with(KEYED).file('the bytes').build();
    await expect(storage.store(draft())).rejects.toMatchObject({ kind: 'storage-failure' });
    const other = open(bucket.another());
    await expect.poll(() => other.store(draft()).catch((error: unknown) => error)).toMatchObject({ replayed: false });

    goOn.resolve();
    await Promise.all([storage.close(), other.close()]);
    await new Sweeper(later(bucket), logger).sweep();
    await expectWhole(new BucketView(bucket), 1);
  });

  it.each([
    ['at once', 0],
    ['at the next sweep if the store fails meanwhile', 1],
  ])('remove the parts that the upload of a client that went away has left in the store, %s', async (_, left) => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    mine.before = (operation) => {
      if (operation === 'removeParts' && left > 0) throw new Error('down');
    };
    const storage = open(mine);
    const pathOf = ({ content }: UploadDraft) => content?.path ?? '';
    async function* bytes() {
      yield await Promise.resolve(Buffer.from(LONG));
      bucket.leaveParts(pathOf(draft));
      throw new Error('gone');
    }
    const draft = anUploadDraft().with({ bytes: bytes() }).build();
    await expect(storage.store(draft)).rejects.toThrow('gone');
    await storage.close();
    expect(bucket.parts(pathOf(draft))).toBe(left);
    expect(await new BucketView(bucket).keys('staging/')).toHaveLength(left);
    await new Sweeper(later(bucket), logger).sweep();
    expect(bucket.parts(pathOf(draft))).toBe(0);
    await expectWhole(new BucketView(bucket), 0);
  });

  it('keep the file of an upload that resumes while it is swept and is completed on another day', async () => {
    const bucket = new InMemoryBucket();
    const { bytes, begun, goOn } = pausedFile();
    const storage = open(bucket);
    const receivedAt = new Date(Date.now() + 86_400_000);
    const storing = Promise.allSettled([storage.store(anUploadDraft().with({ bytes, receivedAt }).build())]);
    await begun;
    await expect.poll(() => new BucketView(bucket).keys('staging/')).toHaveLength(1);
    const other = later(bucket);
    const { reached, goOn: sweepOn } = pauseAtFirst(other, 'remove');
    const sweeping = new Sweeper(other, logger).sweep();
    await reached;
    goOn();
    const [outcome] = await storing;
    sweepOn();
    await sweeping;
    await storage.close();
    await expectWhole(new BucketView(bucket), outcome.status === 'fulfilled' ? 1 : 0);
  });

  it('free a key although the answers to two writes of its claim were lost, and only the first was carried out', async () => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    let writes = 0;
    const isOfClaim = (operation: keyof Bucket, key: string) => operation === 'replace' && key.startsWith('idempotency/');
    mine.before = (operation, key) => {
      if (isOfClaim(operation, key) && ++writes === 2) throw new StoreSilentError(1);
    };
    mine.after = (operation, key) => {
      if (isOfClaim(operation, key) && writes === 1) throw new StoreSilentError(1);
    };
    const storage = open(mine);
    const slow = anUploadDraft().with(KEYED).build();
    const receivedAt = new Date(Date.now() + 11_000);
    const storing = storage.store({ ...slow, conclude: async (stored) => ({ ...(await slow.conclude(stored)), receivedAt }) });
    await expect(storing).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect.poll(() => writes).toBeGreaterThan(2);
    await storage.close();
    const other = open(bucket);
    expect(await other.store(anUploadDraft().with(KEYED).build())).toMatchObject({ replayed: false });
    await other.close();
    await expectWhole(new BucketView(bucket), 1);
  });

  it('free a key whose claim arrives after it was given up', async () => {
    const bucket = new InMemoryBucket();
    const mine = bucket.another();
    const storage = open(mine);
    const late = deferred();
    let asked = 0;
    const claiming = bucket.another();
    mine.before = (operation, key) => {
      if (operation !== 'create' || !key.startsWith('idempotency/') || asked++ > 0) return;
      // The store carries out the request to create the claim after all, but later.
      void late.promise.then(() => claiming.create(key, Buffer.from(JSON.stringify({ upload_id: 'a', segment: 'b', content_path: null }))));
      throw new StoreSilentError(1);
    };
    await expect(storage.store(anUploadDraft().with(KEYED).build())).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect.poll(() => new BucketView(bucket).keys('idempotency/')).toHaveLength(1);
    late.resolve();
    expect(await storage.store(anUploadDraft().with(KEYED).build())).toMatchObject({ replayed: false });
    await storage.close();
  });

  it('continue when no marker can be removed', async () => {
    const bucket = new InMemoryBucket();
    bucket.before = (operation, key) => {
      if (operation === 'remove' && key.startsWith('staging/')) throw new Error('denied');
    };
    const storage = open(bucket);
    for (let count = 0; count < 1_100; count++) await storage.store(anUploadDraft().file('the bytes').build());
    await storage.checkHealth();
    await storage.close();
  });

  it('store exactly one of fifty simultaneous uploads under a key', async () => {
    const bucket = new InMemoryBucket();
    const storages = [open(bucket), open(bucket.another())] as const;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, (_, index) => storages[index % 2 ? 1 : 0].store(anUploadDraft().with(KEYED).file('the bytes').build())),
    );
    const stored = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' && !outcome.value.replayed ? [outcome.value] : []));
    expect(stored).toHaveLength(1);
    for (const storage of storages) {
      const late = await storage.store(anUploadDraft().with(KEYED).file('the bytes').build());
      expect(late).toEqual({ ...stored[0], replayed: true });
    }
    await expectWhole(new BucketView(bucket), 1);
    await Promise.all(storages.map((storage) => storage.close()));
  });

  it('leave uploads alone that another process has in progress', async () => {
    const bucket = new InMemoryBucket();
    const { bytes, begun, goOn } = pausedFile();
    const storage = open(bucket);
    const storing = storage.store(anUploadDraft().with({ bytes }).build());
    await begun;
    await new Sweeper(bucket.another(), logger).sweep();
    goOn();
    await storing;
    await storage.close();
    await expectWhole(new BucketView(bucket), 1);
    expect(await new BucketView(bucket).keys('staging/')).toEqual([]);
  });

  it('keep a file whose line was moved while one of them was paused before a sweep', async () => {
    const bucket = new InMemoryBucket();
    const lost = bucket.another();
    lost.before = (operation) => {
      if (operation === 'remove') throw new Error('lost');
    };
    const storage = open(lost);
    await storage.store(anUploadDraft().file('the bytes').build());
    await storage.close();
    const still = later(bucket);
    const { reached, goOn } = pauseAt(still, 1, 'before');
    const sweeping = new Sweeper(still, logger).sweep();
    await reached;

    const other = later(bucket);
    await new Sweeper(other, logger).sweep();
    const view = new BucketView(other);
    const [segment = ''] = await view.keys('uploads/');
    await other.create(segment.replace(/[^/]*$/, 'moved.ndjson'), (await view.bytes(segment)) ?? Buffer.alloc(0));
    await other.remove([segment]);
    goOn();
    await sweeping;
    expect((await view.contentPaths()).length).toBe(1);
    expect(await view.keys('staging/')).toEqual([]);
  });
});
