import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LivelyBucket } from '../../../../../test/support/lively-bucket.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../../common/durations.js';
import { BucketView } from '../../../../testing/bucket.view.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import type { UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { indexLine } from '../../../domain/layout.js';
import { LateSegments } from './event-outbox/late-segments.js';
import { CLAIMS, CLAIMS_COMPARED } from './keys.js';
import { LostClaims } from './lost-claims.js';
import { ObjectStorageFileStorage } from './object-storage.file-storage.adapter.js';
import { segmentOf } from './segment-names.js';
import { BucketUploads } from './stored-uploads/bucket-uploads.js';

const NOON = Date.parse('2026-03-10T12:00:00Z');
/** Within this time, a replica takes the regular turn, which rebuilds lost claims. */
const TURN_MS = 2 * HOUR_MS;
const KEYS = ['key-1', 'key-2', 'key-3'];
/** After this many iterations of the event loop without an operation on the bucket, the replicas are idle. */
const QUIET_ITERATIONS = 50;
const ONE = '1 claim of an idempotency key is missing in idempotency/';
const ALL = `${KEYS.length} claims of idempotency keys are missing in idempotency/`;

let bucket: InMemoryBucket;
let view: BucketView;
let warnings: string[];
let progress: string[];
let replicas: InMemoryBucket[];
let storages: ObjectStorageFileStorage[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: NOON });
  bucket = new InMemoryBucket();
  view = new BucketView(bucket);
  warnings = [];
  progress = [];
  replicas = [];
  storages = [];
});
afterEach(async () => {
  await Promise.all(storages.map((storage) => storage.close()));
  vi.useRealTimers();
});

function open(mine = bucket.another()): ObjectStorageFileStorage {
  const storage = new ObjectStorageFileStorage({ bucket: mine, logger: { warn: (message) => warnings.push(message), log: (message) => progress.push(message) } });
  replicas.push(mine);
  storages.push(storage);
  return storage;
}

const draft = (idempotencyKey: string | null, long = '') => anUploadDraft().with({ idempotencyKey, additionalData: long });
const store = (storage: ObjectStorageFileStorage, key: string) => storage.store(draft(key).build());
const storeFile = (storage: ObjectStorageFileStorage, key: string) => storage.store(draft(key).file('the bytes').build());
const claims = () => view.keys(CLAIMS);
const lose = async (count = Infinity) => bucket.remove((await claims()).slice(0, count));

/** Stores an upload under each of `KEYS`. Resolves to functions that repeat these uploads' requests. */
async function storeAll(keep = store, storage = open()) {
  const stored = new Map<string, string>();
  for (const key of KEYS) stored.set(key, (await keep(storage, key)).uploadId);
  return async (another: ObjectStorageFileStorage) => {
    for (const [key, uploadId] of stored) expect(await keep(another, key)).toMatchObject({ uploadId, replayed: true });
    expect(await view.lines()).toHaveLength(stored.size);
  };
}

async function closeAll(): Promise<void> {
  await Promise.all(storages.splice(0).map((storage) => storage.close()));
  replicas = [];
}

/** Waits until no replica begins an operation any more. */
async function settle(): Promise<void> {
  const begun = () => replicas.reduce((sum, { operations }) => sum + operations, 0);
  for (let before = begun(), quiet = 0; quiet < QUIET_ITERATIONS; quiet++) {
    await new Promise(setImmediate);
    if (begun() !== before) [before, quiet] = [begun(), 0];
  }
}

/** Advances the clock by `ms` milliseconds, and waits until the turns that begin meanwhile are over. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await settle();
}

/** Records the operations of the next replica that is opened with this bucket. */
function recorded(): { mine: InMemoryBucket; operations: string[] } {
  const mine = bucket.another();
  const operations: string[] = [];
  mine.before = (operation, key) => void operations.push(`${operation} ${key}`);
  return { mine, operations };
}

describe.each([
  ['without a file', store],
  ['with a file', storeFile],
] as const)('claims of uploads %s', (_, keep) => {
  it.each([
    ['one', 1, ONE],
    ['all', Infinity, ALL],
  ])('are rebuilt at the start if %s were lost while the service was stopped, even for a request that comes at once', async (__, count, warning) => {
    const repeatAll = await storeAll(keep);
    await closeAll();
    await lose(count);
    await repeatAll(open());
    await repeatAll(open());
    expect(await claims()).toHaveLength(KEYS.length);
    expect(warnings).toEqual([expect.stringContaining(warning)]);
  });

  it.each([0, 1, 19])('are rebuilt in a regular turn if they were lost %i hours after the start', async (hours) => {
    const storage = open();
    const repeatAll = await storeAll(keep, storage);
    for (let hour = 0; hour < hours; hour++) await pass(HOUR_MS);
    for (const [count, warning] of [[1, ONE], [Infinity, ALL]] as const) {
      await lose(count);
      await pass(TURN_MS);
      await repeatAll(storage);
      expect(warnings.splice(0)).toEqual([expect.stringContaining(warning)]);
    }
  });

  it.each([
    [DAY_MS - 1_000, KEYS.length, [expect.stringContaining(ALL)]],
    [DAY_MS, 0, []],
    [DAY_MS + 2 * HOUR_MS, 0, []],
  ])("are rebuilt only while their line is younger than 24 hours by the store's clock (%i ms)", async (ageMs, count, told) => {
    await storeAll(keep);
    await closeAll();
    await lose();
    const mine = bucket.another();
    mine.aheadMs = ageMs;
    open(mine);
    await settle();
    expect(await claims()).toHaveLength(count);
    expect(warnings).toEqual(told);
  });

  it('are left alone if the upload is removed at any step of a comparison, which then leaves nothing about it', async () => {
    for (let at = 0, isOver = false; !isOver; at++) {
      bucket = new InMemoryBucket();
      view = new BucketView(bucket);
      warnings = [];
      const { uploadId } = await keep(open(), 'key');
      await closeAll();
      await lose();
      const uploads = new BucketUploads(bucket.another(), () => undefined);
      const mine = bucket.another();
      let operation = 0;
      mine.before = async () => {
        if (operation++ === at) await uploads.remove(uploadId);
      };
      const storage = open(mine);
      await settle();
      isOver = operation <= at;
      await uploads.remove(uploadId);
      for (const key of await claims()) expect(String(await view.bytes(key))).not.toContain(uploadId);
      expect(await keep(storage, 'key')).toMatchObject({ replayed: false });
    }
  });
});

describe('a lost claim', () => {
  it('is logged by one of five replicas that start at the same time', async () => {
    const repeatAll = await storeAll();
    await closeAll();
    await lose();
    const started = Array.from({ length: 5 }, () => open());
    await settle();
    for (const replica of started) await repeatAll(replica);
    expect(warnings).toEqual([expect.stringContaining(ALL)]);
  });

  it('is not rebuilt if another upload takes the key meanwhile', async () => {
    const other = open();
    await store(other, 'key');
    await lose();
    const mine = bucket.another();
    let taking: Promise<UploadReceipt> | undefined;
    mine.before = async (operation, key) => {
      if (operation === 'create' && key.startsWith(CLAIMS)) await (taking ??= store(other, 'key'));
    };
    const storage = open(mine);
    await settle();
    const taken = await taking;
    expect(taken).toMatchObject({ replayed: false });
    expect(await store(storage, 'key')).toEqual({ ...taken, replayed: true });
    expect(warnings).toEqual([]);
  });

  it('is rebuilt although the time of another line is malformed', async () => {
    const repeat = await storeAll();
    await closeAll();
    const uploadId = '019cd79e-4600-7000-8000-000000000000';
    const segment = `uploads/kind=historical/date=2026-03-10/${uploadId}.ndjson`;
    await bucket.create(segment, Buffer.from(`{"upload_id":"${uploadId}","received_at":"x","kind":"historical","idempotency_key":"key"}\n`));
    await lose();
    const storage = open();
    await settle();
    await bucket.remove([segment]);
    await repeat(storage);
  });

  it('is rebuilt also if its line is long, and segments of several lines that are as long are not read', async () => {
    const long = 'x'.repeat(100_000);
    const storage = open();
    const repeat = () => open().store(draft('key', long).build());
    await storage.store(draft('key', long).build());
    await Promise.all(Array.from({ length: 20 }, () => storage.store(draft(null, long).build())));
    await closeAll();
    await lose();
    const { mine, operations } = recorded();
    open(mine);
    await settle();
    expect(await repeat()).toMatchObject({ replayed: true });
    const several = (await view.keys('uploads/')).length - 1;
    expect(several).toBeGreaterThan(0);
    // The segment with the line of the lost claim is read three times: to compare it, and before and after the claim is
    // created.
    expect(new Set(operations.filter((each) => each.startsWith('read uploads/'))).size).toBeLessThan(1 + several);
  });
});

describe('lost claims of uploads with names that are ahead of the store\'s clock', () => {
  it.each([3, 6])('are rebuilt if the clock of the machine is %i minutes ahead', async (minutes) => {
    const ahead = bucket.another();
    ahead.aheadMs = -minutes * MINUTE_MS;
    vi.setSystemTime(NOON + minutes * MINUTE_MS);
    const repeat = await storeAll(store, open(ahead));
    await closeAll();
    vi.setSystemTime(NOON);
    await lose();
    await repeat(open());
  });

  it('are rebuilt if the clock of the machine was six hours ahead once', async () => {
    const parts = draft('key-1').with({ receivedAt: new Date(NOON + 6 * HOUR_MS) }).build();
    const upload = await parts.conclude(null);
    await bucket.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
    vi.setSystemTime(NOON + MINUTE_MS);
    const storage = open();
    await expect(storage.store(draft('key-1').build())).resolves.toMatchObject({ uploadId: upload.uploadId, replayed: true });
  });
});

describe('a comparison', () => {
  it('leaves the claim of an upload in progress alone, whether it exists or is missing', async () => {
    let goOn = (): void => undefined;
    const gate = new Promise<void>((done) => (goOn = done));
    const slow = draft('key').build();
    const storing = open().store({
      ...slow,
      conclude: async (stored) => {
        await gate;
        return slow.conclude(stored);
      },
    });
    await expect.poll(claims).toHaveLength(1);
    const [key = ''] = await claims();
    const bytes = await view.bytes(key);
    open();
    await settle();
    expect(await view.bytes(key)).toEqual(bytes);
    await lose();
    open();
    await settle();
    expect(await claims()).toEqual([]);
    goOn();
    await storing;
    expect(warnings).toEqual([]);
  });

  it('of an empty store needs five requests', async () => {
    const { mine, operations } = recorded();
    open(mine);
    await settle();
    expect(operations.filter((each) => !each.endsWith(' staging/'))).toEqual([
      `read ${CLAIMS_COMPARED}`,
      ...['historical', 'nowcast'].flatMap((kind) => ['10', '09'].map((day) => `list uploads/kind=${kind}/date=2026-03-${day}/`)),
    ]);
  });

  it('after a regular turn reads only segments that were written later', async () => {
    const storage = open();
    await storeAll(store, storage);
    await pass(TURN_MS);
    await pass(TURN_MS);
    await store(storage, 'later');
    await closeAll();
    const { mine, operations } = recorded();
    open(mine);
    await settle();
    expect(operations.filter((each) => each.startsWith('read uploads/'))).toHaveLength(1);
  });

  it.each([
    ['its first half', (whole: Buffer) => whole.subarray(0, whole.length / 2)],
    ['no bytes', () => Buffer.alloc(0)],
    ['another byte', (whole: Buffer) => Buffer.from(whole.map((byte, at) => (at === 5 ? byte ^ 1 : byte)))],
  ])('reads all lines again, and warns, if what the last one saved is damaged (%s)', async (_, damaged) => {
    const repeatAll = await storeAll();
    await pass(TURN_MS);
    await closeAll();
    await bucket.replace(CLAIMS_COMPARED, damaged((await view.bytes(CLAIMS_COMPARED)) ?? Buffer.alloc(0)));
    await lose(1);
    await repeatAll(open());
    expect(warnings).toEqual([expect.stringContaining(`${CLAIMS_COMPARED} is damaged`), expect.stringContaining(ONE)]);
  });

  it.each([1_000, 2_000])('ends although uploads create segments faster than it reads them, and misses none from a machine whose clock is ahead (pages of %i)', async (pageLength) => {
    const MOST = 12_000;
    const lively = new LivelyBucket(pageLength);
    let created = 0;
    const create = async (parts = draft(null)): Promise<void> => {
      created += 1;
      const upload = await parts.build().conclude(null);
      await lively.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
    };
    for (let first = 0; first < 1_100; first++) await create();
    await create(draft('key-1').with({ receivedAt: new Date(NOON + 3 * MINUTE_MS) }));
    lively.before = async (operation) => {
      if (operation !== 'read' || created >= MOST) return;
      vi.setSystemTime(Date.now() + 1_000);
      for (let further = 0; further < 3; further++) await create();
    };
    const lostClaims = new LostClaims(lively, new LateSegments(lively), { warn: () => undefined });
    await lostClaims.rebuild();
    await lostClaims.close();
    expect(created).toBeLessThan(MOST);
    expect(lively.keys.filter((key) => key.startsWith(CLAIMS) && key !== CLAIMS_COMPARED)).toHaveLength(1);
  });

  it('is repeated until it succeeds, if the store is down at the start', async () => {
    const repeatAll = await storeAll();
    await closeAll();
    await lose();
    const mine = bucket.another();
    mine.before = () => {
      throw new Error('The store is down.');
    };
    const storage = open(mine);
    await settle();
    mine.before = () => undefined;
    await pass(MINUTE_MS);
    await repeatAll(storage);
    expect(warnings).toContainEqual('Comparing idempotency/ with the lines failed; retrying until it succeeds.');
    expect(warnings).toContainEqual(expect.stringContaining(ALL));
  });

  it('logs how far it is every two seconds', async () => {
    await storeAll();
    await closeAll();
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout', 'performance'], now: NOON });
    const mine = bucket.another();
    mine.before = (operation, key) => {
      if (operation === 'read' && key.startsWith('uploads/')) vi.advanceTimersByTime(1_000);
    };
    open(mine);
    await settle();
    expect(progress).toEqual(['3 segments read.', 'all 3 segments read in 3 s.'].map((far) => `Comparing idempotency/ with the lines: ${far}`));
  });

  it('lets an upload under a key wait for two seconds at most', async () => {
    const mine = bucket.another();
    let answer = (): void => undefined;
    const answered = new Promise<void>((done) => (answer = done));
    mine.before = (operation) => (operation === 'list' ? answered : undefined);
    const storing = open(mine).store(draft('key').build());
    await settle();
    expect(await claims()).toEqual([]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await storing).toMatchObject({ replayed: false });
    answer();
  });
});
