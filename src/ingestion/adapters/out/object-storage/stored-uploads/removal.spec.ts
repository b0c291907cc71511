import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BucketView } from '../../../../../testing/bucket.view.js';
import { LivelyBucket } from '../../../../../../test/support/lively-bucket.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { HOUR_MS } from '../../../../../common/durations.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { indexLine } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { StoreSilentError } from '../bucket.js';
import { compactDay } from '../compaction.js';
import { ObjectStorageFileStorage } from '../object-storage.file-storage.adapter.js';
import { segmentOf } from '../segment-names.js';
import { verifyBucket } from '../store-verification/bucket-view.js';
import { Sweeper } from '../sweeper.js';
import { BucketUploads } from './bucket-uploads.js';
import { newRemovalKey } from './removal-marker.js';

const DATE = '2026-03-10';
const NOON = Date.parse(`${DATE}T12:00:00Z`);
const logger = { warn: () => undefined };

let bucket: InMemoryBucket;
let view: BucketView;
/** How far this machine's clock is behind the store's, in milliseconds. */
let behindMs: number;
beforeEach(() => {
  behindMs = 0;
  vi.useFakeTimers({ toFake: ['Date'], now: NOON });
  bucket = new InMemoryBucket();
  view = new BucketView(bucket.another());
});
afterEach(() => {
  vi.useRealTimers();
});

/**
 * The bucket as another process sees it when the store's clock has moved `aheadMs` milliseconds on, so that objects are
 * older.
 */
function later(aheadMs: number): InMemoryBucket {
  const another = bucket.another();
  another.aheadMs = behindMs + aheadMs;
  return another;
}

/**
 * Stores two uploads of each sort: with a file, with a file under an idempotency key, without a file, and a slow one
 * (over 10 s).
 */
async function storeUploads(): Promise<Upload[]> {
  const storage = new ObjectStorageFileStorage({ bucket: bucket.another(), logger });
  const uploads: Upload[] = [];
  for (const customerId of ['customer-1', 'customer-2']) {
    const draft = anUploadDraft().with({ customerId });
    for (const each of [draft.file('the bytes'), draft.with({ idempotencyKey: 'key' }).file('the bytes'), draft]) uploads.push(await storeUpload(storage, each.build()));
    const slow = draft.file('the bytes').build();
    const receivedAt = new Date(NOON + 60_000);
    uploads.push(await storeUpload(storage, { ...slow, conclude: async (stored) => ({ ...(await slow.conclude(stored)), receivedAt }) }));
  }
  await storage.close();
  return uploads;
}

const idsOf = (uploads: readonly Upload[]) => uploads.map(({ uploadId }) => uploadId).sort();
const idsWithout = (ids: readonly string[], others: readonly string[]) => ids.filter((id) => !others.includes(id));
const linesIn = async () => [...new Set((await view.lines()).map(({ upload_id }) => upload_id))].sort();

/**
 * Expects that each file has an index line and each line its file, and that a verification of the bucket finds nothing
 * wrong.
 */
async function expectConsistent(): Promise<void> {
  const lines = await view.lines();
  expect((await view.contentPaths()).sort()).toEqual([...new Set(lines.flatMap(({ content_path }) => content_path ?? []))].sort());
  expect(await defectsIn(later(0))).toEqual([]);
}

async function defectsIn(looking: InMemoryBucket): Promise<unknown[]> {
  const defects: unknown[] = [];
  for await (const finding of verifyBucket(looking)) if (finding.state !== 'under-way') defects.push(finding);
  return defects;
}

/** Pauses a process before or after its operation `at` on the bucket, counted from 0, until `goOn` is called. */
function stopAt(process: InMemoryBucket, moment: 'before' | 'after', at: number) {
  let count = 0;
  let stop = (): void => undefined;
  let goOn = (): void => undefined;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  const gate = new Promise<void>((resolve) => (goOn = resolve));
  process[moment] = () => {
    if (count++ !== at) return;
    stop();
    return gate;
  };
  return { stopped, goOn };
}

it('lists the segments of a day once more if its progress is reported, and nothing else', async () => {
  await storeUploads();
  const operationsOf = async (onProgress?: () => void): Promise<number> => {
    const process = bucket.another();
    expect(await new BucketUploads(process).removeAll({ customerId: 'customer-1' }, { dryRun: true, ...(onProgress && { onProgress }) })).toBe(4);
    return process.operations;
  };
  expect(await operationsOf(() => undefined)).toBe((await operationsOf()) + 1);
});

it.each([
  ['another', 0],
  ['another, whose clock is three minutes ahead,', 3 * 60_000],
  ['another, whose clock is three minutes behind,', -3 * 60_000],
])('ends while a machine and %s store further uploads of the customer faster than they can be removed', async (_, offsetMs) => {
  const MOST = 8_000;
  const paged = new LivelyBucket(10);
  let count = 0;
  const store = async (ahead: number): Promise<string> => {
    count += 1;
    vi.setSystemTime(Date.now() + 1);
    const receivedAt = new Date(Date.now() + ahead);
    const draft = anUploadDraft().with({ customerId: 'customer-1' }).build();
    const upload = { ...(await draft.conclude(null)), uploadId: uuidAt(receivedAt), receivedAt };
    await paged.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
    return upload.uploadId;
  };
  const storeOnBoth = async (): Promise<string[]> => Promise.all([store(0), store(offsetMs)]);
  // One machine's clock was six hours ahead once.
  const before = [await store(6 * HOUR_MS)];
  while (before.length < 600) before.push(...(await storeOnBoth()));
  let isStoring = false;
  paged.before = async (operation) => {
    if (operation !== 'read' || isStoring || count >= MOST) return;
    isStoring = true;
    for (let pairs = 0; pairs < 6; pairs++) await storeOnBoth();
    isStoring = false;
  };
  expect(await new BucketUploads(paged).removeAll({ customerId: 'customer-1' })).toBeGreaterThanOrEqual(before.length);
  expect(count).toBeLessThan(MOST);
  const left = new Set((await new BucketView(paged.another()).lines()).map(({ upload_id }) => upload_id));
  expect(before.filter((id) => left.has(id))).toEqual([]);
});

const REMOVALS: [string, (uploads: BucketUploads, removed: readonly Upload[]) => Promise<unknown>, (upload: Upload) => boolean][] = [
  ['an upload', (uploads, [first]) => uploads.remove(first?.uploadId ?? ''), ({ idempotencyKey, customerId }) => idempotencyKey !== null && customerId === 'customer-1'],
  ['the uploads of a customer', (uploads) => uploads.removeAll({ customerId: 'customer-1' }), ({ customerId }) => customerId === 'customer-1'],
];
const OPERATIONS = Array.from({ length: 20 }, (_, index) => index);

describe.each(REMOVALS)('a removal of %s', (_, remove, isWanted) => {
  let all: Upload[];
  let kept: string[];
  let simple: string[];
  beforeEach(async () => {
    all = await storeUploads();
    kept = idsOf(all.filter((upload) => !isWanted(upload)));
    simple = idsOf(all.filter(({ content }) => !content));
  });

  it.each([
    ['the current day', NOON + HOUR_MS],
    ['a past day', NOON + 50 * HOUR_MS],
  ])('of %s leaves each upload whole or gone after a sweep, wherever it stalls, and goes on without harm', async (__, now) => {
    vi.setSystemTime(now);
    const before = bucket.copy();
    for (const at of OPERATIONS) {
      bucket = before.copy();
      view = new BucketView(bucket.another());
      const process = bucket.another();
      const { stopped, goOn } = stopAt(process, at % 2 > 0 ? 'after' : 'before', at);
      const removing = remove(new BucketUploads(process), all.filter(isWanted));
      await Promise.race([stopped, removing]);

      const isBegun = (await view.keys('staging/')).length > 0;
      await new Sweeper(later(11 * 60_000), logger).sweep();
      // An upload without a file and idempotency key is only an index line, so its removal takes one request and no
      // marker.
      const left = idsWithout(await linesIn(), simple);
      expect(isBegun ? [idsWithout(kept, simple)] : [kept, idsOf(all)].map((ids) => idsWithout(ids, simple))).toContainEqual(left);
      await expectConsistent();

      goOn();
      await removing;
      expect(await linesIn()).toEqual(kept);
      await expectConsistent();
      expect(await view.keys('staging/')).toEqual([]);
    }
  });

  it.each([
    ['compaction', 0],
    ['a removal', 0],
    ['compaction', 40 * HOUR_MS],
    ['a removal', 40 * HOUR_MS],
  ])("is not undone while %s stalls anywhere and goes on later, if this machine's clock is %i ms behind the store's", async (stalled, clockBehindMs) => {
    behindMs = clockBehindMs;
    vi.setSystemTime(NOON + 50 * HOUR_MS - behindMs);
    const before = bucket.copy();
    for (const at of OPERATIONS) {
      bucket = before.copy();
      view = new BucketView(bucket.another());
      const process = later(0);
      const { stopped, goOn } = stopAt(process, at % 2 > 0 ? 'after' : 'before', at);
      const compacting = (on: InMemoryBucket) => compactDay(on, 'historical', DATE).catch(() => undefined);
      const removing = (on: InMemoryBucket) => remove(new BucketUploads(on), all.filter(isWanted));
      const first = stalled === 'compaction' ? compacting(process) : removing(process);
      await Promise.race([stopped, first]);
      await (stalled === 'compaction' ? removing(later(0)) : compacting(later(11 * 60_000)));

      goOn();
      await first;
      expect(await linesIn()).toEqual(kept);
      for (const hours of [1, 2]) await compacting(later(hours * HOUR_MS));
      expect(await linesIn()).toEqual(kept);
      await expectConsistent();
    }
  });

  it('gives up a plan of compaction whose target another process has prevented', async () => {
    vi.setSystemTime(NOON + 50 * HOUR_MS);
    const process = later(0);
    let target = '';
    process.before = (operation, key) => {
      if (operation !== 'upload') return;
      target = key;
      throw new Error('The process crashes.');
    };
    await compactDay(process, 'historical', DATE).catch(() => undefined);
    expect(await bucket.create(target, Buffer.alloc(0))).toBeDefined();
    await remove(new BucketUploads(later(11 * 60_000)), all.filter(isWanted));
    expect(await linesIn()).toEqual(kept);
    await expectConsistent();
  });

  it('replaces a damaged plan of compaction after ten minutes, with a warning', async () => {
    vi.setSystemTime(NOON + 50 * HOUR_MS);
    const plan = `compaction/kind=historical/date=${DATE}`;
    await bucket.create(plan, Buffer.from('damaged'));
    const warnings: string[] = [];
    const removing = (on: InMemoryBucket) => remove(new BucketUploads(on, undefined, { warn: (message) => void warnings.push(message) }), all.filter(isWanted));
    await expect(removing(later(9 * 60_000))).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await linesIn()).toEqual(idsOf(all));
    expect(warnings).toEqual([]);
    await removing(later(10 * 60_000));
    expect(await linesIn()).toEqual(kept);
    expect(warnings).toEqual([expect.stringContaining(`${plan} was damaged`)]);
    expect(await compactDay(later(HOUR_MS), 'historical', DATE)).toMatchObject({ isBusy: false });
    await expectConsistent();
  });

  it('is not taken for lost bytes by a verification that has read the lines before', async () => {
    const looking = bucket.another();
    let removing: Promise<unknown> | undefined;
    looking.before = async (operation, key) => {
      if (operation === 'open' && key.startsWith('files/')) await (removing ??= remove(new BucketUploads(bucket.another()), all.filter(isWanted)));
    };
    expect(await defectsIn(looking)).toEqual([]);
    expect(await linesIn()).toEqual(kept);
  });

  it('removes lines before bytes, so that a reader finds no line without bytes', async () => {
    const process = bucket.another();
    const left: string[][] = [];
    process.before = async (operation, key) => {
      if (operation === 'remove' && key.startsWith('files/')) left.push(await linesIn());
    };
    await remove(new BucketUploads(process), all.filter(isWanted));
    expect(left).toEqual([kept]);
  });

  it('is rejected, even when it is repeated, until no bytes are left', async () => {
    const failing = bucket.another();
    failing.before = (operation, key) => {
      if (operation === 'remove' && key.startsWith('files/')) throw new Error('denied');
    };
    for (let time = 1; time <= 2; time += 1) await expect(remove(new BucketUploads(failing), all.filter(isWanted))).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await linesIn()).toEqual(kept);
    expect(await view.contentPaths()).toHaveLength(all.filter(({ content }) => content).length);
    await new BucketUploads(failing).removeAll({ customerId: 'customer-3' });
    await new BucketUploads(failing).removeAll({ customerId: 'customer-1' }, { dryRun: true });
    expect(await remove(new BucketUploads(bucket.another()), all.filter(isWanted))).not.toBe(false);
    await expectConsistent();
    const claims = await Promise.all((await view.keys('idempotency/')).map(async (key) => String(await view.bytes(key))));
    for (const { uploadId } of all.filter(isWanted)) expect(claims.join('\n')).not.toContain(uploadId);
    await new Sweeper(later(11 * 60_000), logger).sweep();
    expect(await view.keys('staging/')).toEqual([]);
  });

  it('leaves nothing that names the upload or its customer', async () => {
    await remove(new BucketUploads(bucket.another()), all.filter(isWanted));
    const texts = await Promise.all((await view.keys()).map(async (key) => `${key} ${String(await view.bytes(key))}`));
    for (const { uploadId, content } of all.filter(isWanted)) {
      for (const text of texts.filter((each) => !each.startsWith('uploads/'))) expect(text).not.toContain(uploadId);
      if (content) expect(texts.join('\n')).not.toContain(content.path);
    }
    const keptCustomers = all.filter(({ uploadId }) => kept.includes(uploadId)).map(({ customerId }) => customerId);
    for (const { customerId } of all) if (!keptCustomers.includes(customerId)) expect(texts.join('\n')).not.toContain(customerId);
  });
});

it.each([
  ['the current day', NOON + HOUR_MS],
  ['a past day', NOON + 50 * HOUR_MS],
])('of 100 uploads that share a segment, at once by two processes, removes each of them: %s', async (_, now) => {
  const uploads = Array.from({ length: 100 }, (__, index): Upload => ({
    uploadId: uuidAt(new Date(NOON), index),
    kind: 'historical',
    customerId: 'customer-1',
    filename: 'load.csv',
    manufacturer: 'Acme',
    idempotencyKey: null,
    additionalData: null,
    receivedAt: new Date(NOON),
    content: null,
  }));
  await bucket.create(`uploads/kind=historical/date=${DATE}/${uuidAt(new Date(NOON))}.ndjson`, Buffer.from(uploads.map((upload) => `${indexLine(upload)}\n`).join('')));
  vi.setSystemTime(now);
  const [one, other] = [new BucketUploads(bucket.another()), new BucketUploads(bucket.another())];
  const removals = await Promise.allSettled(uploads.map(({ uploadId }, index) => (index % 2 > 0 ? one : other).remove(uploadId)));
  expect(removals).toEqual(uploads.map(() => ({ status: 'fulfilled', value: true })));
  expect(await linesIn()).toEqual([]);
});

it('fails at once for all that wait when the store falls silent, and works when the store answers again', async () => {
  const uploads = await storeUploads();
  const silent = bucket.another();
  let asked = 0;
  let release: () => void = () => undefined;
  const allWait = new Promise<void>((resolve) => (release = resolve));
  silent.before = async (operation, key) => {
    if (operation !== 'create' || !key.startsWith('staging/')) return;
    asked += 1;
    await allWait;
    throw new StoreSilentError(1_000);
  };
  const stored = new BucketUploads(silent);
  let waiting = 0;
  const mayAccess = (): boolean => {
    waiting += 1;
    if (waiting === uploads.length) setImmediate(release);
    return true;
  };
  const ended = await Promise.allSettled(uploads.map(({ uploadId }) => stored.remove(uploadId, mayAccess)));
  expect(ended.map(({ status }) => status)).toEqual(uploads.map(() => 'rejected'));
  expect(asked).toBe(1);
  silent.before = () => undefined;
  for (const { uploadId } of uploads) expect(await stored.remove(uploadId)).toBe(true);
});

it('of one upload is completed only by a caller who may access its customer', async () => {
  const [, keyed] = await storeUploads();
  const failing = bucket.another();
  failing.before = (operation, key) => {
    if (operation === 'remove' && key.startsWith('files/')) throw new Error('denied');
  };
  const uploadId = keyed?.uploadId ?? '';
  const remove = (mayAccess: boolean) => new BucketUploads(bucket.another()).remove(uploadId, () => mayAccess);
  expect(await remove(false)).toBe(false);
  expect(await linesIn()).toHaveLength(8);
  await expect(new BucketUploads(failing).remove(uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
  expect(await remove(false)).toBe(false);
  expect(await view.contentPaths()).toHaveLength(6);
  expect(await remove(true)).toBe(true);
  expect(await view.contentPaths()).toHaveLength(5);
});

it('of some uploads of a customer keeps the bytes of an upload whose line another removal has not removed yet', async () => {
  const [first] = await storeUploads();
  const process = bucket.another();
  let counts: number[] = [];
  process.after = async (operation, key) => {
    if (operation !== 'create' || !key.startsWith('staging/')) return;
    counts = [await new BucketUploads(bucket.another()).removeAll({ customerId: 'customer-1', to: new Date(NOON) })];
    await expectConsistent();
  };
  await new BucketUploads(process).remove(first?.uploadId ?? '');
  expect(counts).toEqual([0]);
  expect(await linesIn()).toHaveLength(7);
  await expectConsistent();
});

describe('a removal from a segment with a foreign name, on a day with more segments than one listing shows,', () => {
  const FOREIGN = `uploads/kind=historical/date=${DATE}/zzz.ndjson`;
  let uploads: Upload[];
  beforeEach(async () => {
    uploads = await storeUploads();
    const segments = (await view.keys('uploads/')).filter((key) => !key.includes('slow-'));
    const lines = await Promise.all(segments.map((key) => view.bytes(key)));
    await bucket.create(FOREIGN, Buffer.concat(lines.flatMap((bytes) => bytes ?? [])));
    await bucket.remove(segments);
    for (let index = 0; index < 1_000; index += 1) await bucket.create(`uploads/kind=historical/date=${DATE}/0000${index}.ndjson`, Buffer.alloc(0));
  });

  /** Begins a removal of a customer's uploads, and stops it after it has written its marker. */
  const stopRemoval = async (customerId: string) => {
    const process = bucket.another();
    const stopped = new Promise<void>((resolve) => {
      process.after = (operation, key) => {
        if (operation !== 'create' || !key.startsWith('staging/')) return;
        resolve();
        return new Promise<void>(() => undefined);
      };
    });
    void new BucketUploads(process).removeAll({ customerId });
    await stopped;
  };

  it.each([
    ['the current day', NOON + HOUR_MS],
    ['a past day', NOON + 50 * HOUR_MS],
  ])('is completed after a crash: %s', async (_, now) => {
    vi.setSystemTime(now);
    await stopRemoval('customer-1');
    expect(await linesIn()).toEqual(idsOf(uploads));
    await new Sweeper(later(11 * 60_000), logger).sweep();
    // An upload without a file and idempotency key isn't in the marker.
    expect(await linesIn()).toEqual(idsOf(uploads.filter(({ customerId, content }) => customerId === 'customer-2' || !content)));
    await expectConsistent();
    expect(await view.keys('staging/')).toEqual([]);
  });

  it('keeps its bytes while another process removes other uploads of the customer', async () => {
    await stopRemoval('customer-1');
    await new BucketUploads(bucket.another()).removeAll({ customerId: 'customer-1', to: new Date(0) });
    expect(await linesIn()).toEqual(idsOf(uploads));
    await expectConsistent();
  });

  it('is completed with one read of each segment, and without a search', async () => {
    const slow = (await view.keys('uploads/')).find((key) => key.includes('slow-'));
    await stopRemoval('customer-1');
    const process = later(11 * 60_000);
    const reads: string[] = [];
    process.before = (operation, key) => {
      if (['read', 'open', 'list'].includes(operation) && key.startsWith('uploads/')) reads.push(key);
    };
    await new Sweeper(process, logger).sweep();
    expect(reads.sort()).toEqual([slow, FOREIGN]);
  });

  it('is completed from a marker that names no segment, as earlier versions write them', async () => {
    const [upload] = uploads;
    if (!upload) throw new Error('No upload was stored.');
    const { uploadId, content } = upload;
    const lines = String(await view.bytes(FOREIGN)).split('\n');
    await bucket.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
    await bucket.replace(FOREIGN, Buffer.from(lines.filter((line) => !line.includes(uploadId)).join('\n')));
    const remnant = { upload_id: uploadId, content_path: content?.path ?? null, claim: null };
    await bucket.create(newRemovalKey(Date.now()), Buffer.from(JSON.stringify({ removed: [remnant] })));
    await new Sweeper(later(11 * 60_000), logger).sweep();
    expect(await linesIn()).toEqual(idsWithout(idsOf(uploads), [uploadId]));
    await expectConsistent();
  });
});
