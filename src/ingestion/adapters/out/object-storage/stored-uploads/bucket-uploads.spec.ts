import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { isEachCaseTried } from '../../../../../../test/support/cases.js';
import { countRequests } from '../../../../../../test/support/counted-requests.js';
import { HOUR_MS, MINUTE_MS } from '../../../../../common/durations.js';
import { timeOfUuid, uuidAt } from '../../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../../testing/upload-draft.builder.js';
import { indexLine } from '../../../../domain/layout.js';
import { comparePositions } from '../../../../domain/upload-filter.js';
import type { Upload } from '../../../../domain/upload.js';
import type { UploadFilter, UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import type { ListedObject } from '../bucket.js';
import { compactDay } from '../compaction.js';
import { ObjectStorageFileStorage } from '../object-storage.file-storage.adapter.js';
import { parseName, segmentOf } from '../segment-names.js';
import { BucketUploads } from './bucket-uploads.js';

const DATE = '2026-03-10';
const MIDNIGHT = Date.parse(DATE);
const DIRECTORY = `uploads/kind=nowcast/date=${DATE}/`;

const uploadAt = (receivedAt: number, { beganAt = receivedAt, ...more }: Partial<Upload> & { beganAt?: number } = {}): Upload => ({
  uploadId: uuidAt(new Date(beganAt)),
  kind: 'nowcast',
  customerId: 'customer-1',
  filename: 'load.csv',
  manufacturer: 'Acme',
  idempotencyKey: null,
  additionalData: null,
  receivedAt: new Date(receivedAt),
  content: null,
  ...more,
});

const linesOf = (uploads: readonly Upload[]) => Buffer.from(uploads.map((upload) => `${indexLine(upload)}\n`).join(''));

const shareAt = (bucket: InMemoryBucket, time: Date, uploads: readonly Upload[]) => bucket.create(`${DIRECTORY}${uuidAt(time)}.ndjson`, linesOf(uploads));
/** Stores index lines as uploads without a file do: in a segment named by the time in the id of the first upload. */
const share = (bucket: InMemoryBucket, uploads: readonly Upload[]) => shareAt(bucket, new Date(timeOfUuid(uploads[0]?.uploadId ?? '')), uploads);
/** Stores an index line as earlier versions did: in a segment named by a time up to ten seconds after `received_at`. */
const shareAsBefore = (bucket: InMemoryBucket, upload: Upload) => shareAt(bucket, new Date(upload.receivedAt.getTime() + 9_900), [upload]);
const own = (bucket: InMemoryBucket, upload: Upload) => bucket.create(segmentOf(upload), linesOf([upload]));

/**
 * Stores the uploads of a day until `now`; a whole day has 1,534 segments. Every 90 s there is a segment of one upload,
 * half as often a segment that three uploads share, and sometimes a segment of a slow upload. Returns the uploads,
 * newest first.
 */
async function storeDay(bucket: InMemoryBucket, now: number): Promise<Upload[]> {
  const uploads: Upload[] = [];
  const earlier = bucket.another();
  earlier.aheadMs = -24 * HOUR_MS;
  for (let minute = 0, at = MIDNIGHT; minute < 960 && at < now; at = MIDNIGHT + ++minute * 90_000) {
    const alone = uploadAt(at + 3_000, { beganAt: at });
    uploads.push(alone);
    await own(earlier, alone);
    if (minute % 2 > 0) continue;
    const together = Array.from({ length: 3 }, (_, index) => uploadAt(at + 1_500 * index, { beganAt: at + 500 * index }));
    uploads.push(...together);
    await share(earlier, together);
    if (minute % 10 > 0 || minute < 20) continue;
    const slow = uploadAt(at, { beganAt: at - 600_000 - minute });
    uploads.push(slow);
    await own(earlier, slow);
  }
  return uploads.sort((one, other) => comparePositions(other, one));
}

async function listed(bucket: InMemoryBucket, filter: UploadFilter, limit: number): Promise<Upload[]> {
  const all: Upload[] = [];
  let next: UploadPosition | null | undefined;
  for (let pages = 0; next !== null && pages < 10_000; pages++) {
    const page = await new BucketUploads(bucket).list(filter, limit, next);
    all.push(...page.uploads);
    ({ next } = page);
  }
  return all;
}

/** A bucket whose listings take a request for each 1,000 objects or directories, as those of a real store do. */
class PagedBucket extends InMemoryBucket {
  /** How many keys and directories were listed. */
  namesListed = 0;

  override list(prefix: string): AsyncGenerator<ListedObject> {
    return this.inPages(prefix, super.list(prefix));
  }

  override listAfter(prefix: string, after: string): AsyncGenerator<ListedObject> | undefined {
    const listed = super.listAfter(prefix, after);
    return listed && this.inPages(prefix, listed);
  }

  override listDirectories(prefix: string): AsyncGenerator<string> {
    return this.inPages(prefix, directoriesIn(prefix, super.list(prefix)));
  }

  private async *inPages<T>(prefix: string, listed: AsyncIterable<T>): AsyncGenerator<T> {
    let count = 0;
    for await (const each of listed) {
      if (count > 0 && count % 1_000 === 0) await this.before('list', prefix);
      count += 1;
      this.namesListed += 1;
      yield each;
    }
  }
}

async function* directoriesIn(prefix: string, objects: AsyncIterable<ListedObject>): AsyncGenerator<string> {
  let last = '';
  for await (const { key } of objects) {
    const directory = key.slice(0, key.indexOf('/', prefix.length) + 1);
    if (directory !== last) yield directory;
    last = directory;
  }
}

const idsOf = (uploads: readonly Upload[]) => uploads.map(({ uploadId }) => uploadId);

describe.each([
  ['the current day', MIDNIGHT + 22.9 * HOUR_MS, false, 0],
  ['a past day that is not compacted', MIDNIGHT + 50 * HOUR_MS, false, 0],
  ['a past day that is compacted', MIDNIGHT + 50 * HOUR_MS, true, 0],
  ["a past day that is compacted, while this machine's clock is two days behind the store's,", MIDNIGHT + 50 * HOUR_MS, true, 48 * HOUR_MS],
])('the uploads of %s with many segments', (_, now, isCompacted, aheadMs) => {
  let bucket: InMemoryBucket;
  let uploads: Upload[];
  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: now - aheadMs });
    bucket = new PagedBucket();
    bucket.aheadMs = aheadMs;
    uploads = await storeDay(bucket, now);
    if (isCompacted) expect(await compactDay(bucket, 'nowcast', DATE)).toMatchObject({ targets: 2 });
  });
  afterEach(() => {
    bucket.before = () => undefined;
  });
  afterAll(() => {
    vi.useRealTimers();
  });

  it('are listed, newest first', async () => {
    expect(idsOf(await listed(bucket, {}, 400))).toEqual(idsOf(uploads));
  });

  it('are listed from and to a time', async () => {
    const [from, to] = [new Date(MIDNIGHT + 5 * HOUR_MS), new Date(MIDNIGHT + 6 * HOUR_MS + 1)];
    const expected = uploads.filter(({ receivedAt }) => receivedAt >= from && receivedAt < to);
    expect(idsOf(await listed(bucket, { from, to }, 30))).toEqual(idsOf(expected));
  });

  it('are found, with few requests one after the other', async () => {
    for (const upload of uploads.filter((_, index) => index % 211 === 0)) {
      const count = countRequests(bucket);
      expect(await new BucketUploads(bucket).find(upload.uploadId)).toEqual(upload);
      expect(count.rounds).toBeLessThanOrEqual(3);
      expect(count.requests).toBeLessThan(150);
    }
  });

  it.each([
    [10, 3, 50],
    [100, 3, 120],
    [1_000, 5, 710],
  ])('are listed with few requests one after the other (limit %i: %i)', async (limit, rounds, requests) => {
    const count = countRequests(bucket);
    expect((await new BucketUploads(bucket).list({}, limit)).uploads).toEqual(uploads.slice(0, limit));
    expect(count.rounds).toBeLessThanOrEqual(isCompacted ? 3 : rounds);
    expect(count.requests).toBeLessThanOrEqual(isCompacted ? 17 : requests);
    expect(count.listings).toBeLessThanOrEqual(isCompacted ? 15 : limit > 100 ? 21 : 17);
  });

  it('are not found under another id, with a limited number of requests', async () => {
    const count = countRequests(bucket);
    expect(await new BucketUploads(bucket).find(uuidAt(new Date(MIDNIGHT + 5 * HOUR_MS)))).toBeUndefined();
    expect(count.requests).toBeLessThan(300);
  });
});

/** Uploads by the way in which their lines were written, and the newest of them, newest first. */
type LargeDay = Record<'own' | 'shared' | 'old' | 'slow' | 'newest', Upload[]>;

/**
 * Imitates a store with 1,000 days and 1,000,000 uploads in the last of them. Stores only what a search and a first
 * page read:
 *
 * - all segments of the last day's last minutes, about 12 a second, each with the line of one upload
 * - some segments of each hour of that day
 * - one upload of each other day
 *
 * Every second segment is named by the id of its upload. Every fiftieth upload took about nine seconds; half of these
 * were stored by an earlier version. Some other uploads were slow.
 */
async function storeLargeDay(bucket: InMemoryBucket, until: number): Promise<LargeDay> {
  const uploads: LargeDay = { own: [], shared: [], old: [], slow: [], newest: [] };
  bucket.aheadMs = -26 * HOUR_MS;
  for (let day = 1; day < 1_000; day++) await own(bucket, uploadAt(MIDNIGHT - day * 24 * HOUR_MS));
  for (let at = MIDNIGHT; at < until - HOUR_MS; at += HOUR_MS / 4) await own(bucket, uploadAt(at));
  for (let index = 0, at = until - 120_000; at < until; index += 1, at += 86.4) {
    const isOld = index % 100 === 1 && at < until - 20_000;
    const tookMs = isOld ? 9_900 : index % 100 === 51 ? 8_900 : index % 10;
    const upload = uploadAt(Math.floor(at), { beganAt: Math.floor(at) - tookMs });
    const [way, store] = index % 2 === 0 ? (['own', own] as const) : isOld ? (['old', shareAsBefore] as const) : (['shared', (to: InMemoryBucket, each: Upload) => share(to, [each])] as const);
    uploads[way].push(upload);
    await store(bucket, upload);
  }
  for (let index = 0; index < 100; index++) {
    const upload = uploadAt(until - 30_000 - index * 500, { beganAt: until - 600_000 - index });
    uploads.slow.push(upload);
    await own(bucket, upload);
  }
  bucket.aheadMs = 0;
  return { ...uploads, newest: Object.values(uploads).flat().sort((one, other) => comparePositions(other, one)) };
}

/**
 * Merges the segments of the day like a compaction that is interrupted: only half of the merged segments are removed.
 */
async function beginCompaction(bucket: InMemoryBucket): Promise<void> {
  const originals = bucket.keys.filter((key) => key.startsWith(DIRECTORY) && !key.includes('slow-'));
  bucket.before = (operation) => {
    if (operation === 'remove') throw new Error('stopped');
  };
  await expect(compactDay(bucket, 'nowcast', DATE)).rejects.toThrow('stopped');
  bucket.before = () => undefined;
  await bucket.remove(originals.filter((_, index) => index % 2 === 0));
}

type LargeDayCase = [day: string, until: number, now: number, state: 'not compacted' | 'being compacted' | 'compacted'];

const LARGE_DAYS: LargeDayCase[] = [
  ['the current day', 12 * HOUR_MS, 12 * HOUR_MS, 'not compacted'],
  ['a past day', 24 * HOUR_MS, 50 * HOUR_MS, 'being compacted'],
];
if (isEachCaseTried) {
  LARGE_DAYS.push(
    ['the last hour of the current day', 23.9 * HOUR_MS, 23.9 * HOUR_MS, 'not compacted'],
    ['the day before, a second after midnight', 24 * HOUR_MS, 24 * HOUR_MS + 1_000, 'not compacted'],
    ['a past day', 24 * HOUR_MS, 50 * HOUR_MS, 'not compacted'],
    ['a past day', 24 * HOUR_MS, 50 * HOUR_MS, 'compacted'],
  );
}

describe.each(LARGE_DAYS)('%s with 1,000,000 uploads, in a store of 1,000 days (%#)', (_, until, now, state) => {
  let bucket: InMemoryBucket;
  let uploads: LargeDay;
  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + now });
    bucket = new PagedBucket();
    uploads = await storeLargeDay(bucket, MIDNIGHT + until);
    if (state === 'being compacted') await beginCompaction(bucket);
    if (state === 'compacted') await compactDay(bucket, 'nowcast', DATE);
  });
  afterEach(() => {
    bucket.before = () => undefined;
  });
  afterAll(() => {
    vi.useRealTimers();
  });

  it.each(['own', 'shared', 'old', 'slow'] as const)('has uploads that are found with a few requests one after the other (%s)', async (segment) => {
    const isCurrent = now < 23 * HOUR_MS;
    const rounds = isCurrent ? { own: 1, shared: 3, old: 8, slow: 3 }[segment] : { own: 3, shared: 3, old: 8, slow: 3 }[segment];
    const requests = isCurrent ? { own: 2, shared: 50, old: 500, slow: 500 }[segment] : 500;
    const some = uploads[segment].filter((__, index, all) => index % Math.ceil(all.length / 4) === 0);
    expect(some.length).toBeGreaterThan(1);
    for (const upload of some) {
      const count = countRequests(bucket);
      expect(await new BucketUploads(bucket).find(upload.uploadId)).toEqual(upload);
      expect(count.rounds).toBeLessThanOrEqual(rounds);
      expect(count.requests).toBeLessThanOrEqual(requests);
    }
  });

  it.each([
    [1, 3, 250],
    [10, 3, 250],
    [100, 3, 250],
    [1_000, 7, 1_200],
  ])('is listed with a few requests one after the other (limit %i: %i)', async (limit, rounds, requests) => {
    const count = countRequests(bucket);
    const page = await new BucketUploads(bucket).list({}, limit);
    expect(idsOf(page.uploads)).toEqual(idsOf(uploads.newest.slice(0, limit)));
    expect(count.rounds).toBeLessThanOrEqual(rounds);
    expect(count.requests).toBeLessThan(requests);
    expect(count.listings).toBeLessThanOrEqual(limit > 100 ? 22 : 18);
  });

  it.each([1, 100])('is listed again with fewer requests if it is the current day (limit %i)', async (limit) => {
    const stored = new BucketUploads(bucket);
    await stored.list({}, limit);
    const count = countRequests(bucket);
    expect(idsOf((await stored.list({}, limit)).uploads)).toEqual(idsOf(uploads.newest.slice(0, limit)));
    const isCurrent = now < 24 * HOUR_MS;
    expect(count.rounds).toBeLessThanOrEqual(isCurrent ? 2 : 3);
    expect(count.listings).toBeLessThanOrEqual(isCurrent ? 9 : 18);
  });

  it('is listed for a customer without uploads with a limited number of requests one after the other', async () => {
    const count = countRequests(bucket);
    const of = { customerId: 'customer-of-nothing' };
    let page = await new BucketUploads(bucket).list(of, 100);
    while (page.next) page = await new BucketUploads(bucket).list(of, 100, page.next);
    expect(count.rounds).toBeLessThanOrEqual(60);
  });

  it('is found and listed by prefixes if the store lists by nothing else', async () => {
    const [upload] = uploads.shared;
    const listsByPrefix = Object.assign(bucket.another(), { listAfter: () => undefined });
    const count = countRequests(listsByPrefix);
    const stored = new BucketUploads(listsByPrefix);
    expect(await stored.find(upload?.uploadId ?? '')).toEqual(upload);
    expect(count.rounds).toBeLessThanOrEqual(3);
    count.rounds = 0;
    expect(idsOf((await stored.list({}, 100)).uploads)).toEqual(idsOf(uploads.newest.slice(0, 100)));
    expect(count.rounds).toBeLessThanOrEqual(3);
    expect(count.requests).toBeLessThan(1_000);
  });
});

describe('a day of any number of uploads', () => {
  afterEach(() => vi.useRealTimers());

  const perDay = isEachCaseTried ? [300, 1_000, 1_200, 2_000, 5_000, 8_000, 20_000, 60_000, 150_000, 250_000, 500_000, 1_000_000] : [300, 5_000, 150_000];
  const times = [
    ['the current day', 22.9 * HOUR_MS, 12],
    ['a past day', 50 * HOUR_MS, 17],
  ] as const;

  it.each(perDay.flatMap((count) => times.map(([day, now, listings]) => [count, day, now, listings] as const)))(
    'is listed with three requests one after the other (%i, %s)',
    async (inDay, _, now, listings) => {
      vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + now });
      const bucket = new PagedBucket();
      bucket.aheadMs = -26 * HOUR_MS;
      const apartMs = (24 * HOUR_MS) / inDay;
      const until = Math.floor(Math.min(now, 24 * HOUR_MS) / apartMs);
      // Of a large day there are only the segments that a first page lists.
      const indexes = Array.from({ length: until }, (__, index) => index).filter((index) => index < 1_001 || index > until - 3_000);
      const uploads = indexes.map((index) => uploadAt(MIDNIGHT + Math.floor(index * apartMs)));
      for (const upload of uploads) await own(bucket, upload);
      bucket.aheadMs = 0;
      uploads.sort((one, other) => comparePositions(other, one));
      const count = countRequests(bucket);
      const page = await new BucketUploads(bucket).list({}, 100);
      expect(idsOf(page.uploads)).toEqual(idsOf(uploads.slice(0, 100)));
      expect(count.rounds).toBeLessThanOrEqual(3);
      expect(count.listings).toBeLessThanOrEqual(inDay < 1_000 && now < 24 * HOUR_MS ? 4 : listings);
      bucket.before = () => undefined;
      expect(idsOf(await listed(bucket, {}, 1_000))).toEqual(idsOf(uploads));

      const countByPrefix = countRequests(Object.assign(bucket, { listAfter: () => undefined }));
      expect(await new BucketUploads(bucket).list({}, 100)).toEqual(page);
      expect(countByPrefix.rounds).toBeLessThanOrEqual(3);
      expect(countByPrefix.listings).toBeLessThanOrEqual(160);
    },
  );
});

it('of a busy time before a quiet one, only a part is listed for a page', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + 50 * HOUR_MS });
  const bucket = new PagedBucket();
  bucket.aheadMs = -26 * HOUR_MS;
  const quietMs = 1.2 * HOUR_MS;
  const end = MIDNIGHT + 24 * HOUR_MS;
  const quiet = Array.from({ length: 200 }, (_, index) => uploadAt(end - 1 - Math.floor((index * quietMs) / 200)));
  const busy = Array.from({ length: 15_000 }, (_, index) => uploadAt(end - quietMs - index * 50));
  const uploads = [...quiet, ...busy].sort((one, other) => comparePositions(other, one));
  for (const upload of uploads) await own(bucket, upload);
  bucket.aheadMs = 0;
  expect(idsOf((await new BucketUploads(bucket).list({}, 300)).uploads)).toEqual(idsOf(uploads.slice(0, 300)));
  expect(bucket.namesListed).toBeLessThan(12_000);
  expect(idsOf(await listed(bucket, {}, 1_000))).toEqual(idsOf(uploads));
  vi.useRealTimers();
});

describe('a current day that was busy', () => {
  afterEach(() => vi.useRealTimers());

  it.each([1, 9, 11, 61])('is listed with three requests one after the other after %i quiet minutes', async (minutes) => {
    const now = MIDNIGHT + 12 * HOUR_MS;
    vi.useFakeTimers({ toFake: ['Date'], now });
    const bucket = new PagedBucket();
    const busy = Array.from({ length: 900 }, (_, index) => uploadAt(now - index * 250));
    const before = Array.from({ length: 300 }, (_, index) => uploadAt(now - HOUR_MS - index * 10_000));
    const uploads = [...busy, ...before];
    for (const upload of uploads) await own(bucket, upload);
    const stored = new BucketUploads(bucket);
    expect(idsOf((await stored.list({}, 100)).uploads)).toEqual(idsOf(uploads.slice(0, 100)));
    vi.setSystemTime(now + minutes * MINUTE_MS);
    const few = [uploadAt(now + minutes * MINUTE_MS)];
    for (const upload of few) await own(bucket, upload);
    const count = countRequests(bucket);
    expect(idsOf((await stored.list({}, 100)).uploads)).toEqual(idsOf([...few, ...uploads].slice(0, 100)));
    expect(count.rounds).toBeLessThanOrEqual(3);
  });
});

describe('uploads that waited for the store at the same time', () => {
  afterEach(() => vi.useRealTimers());

  it.each([
    ['from keys on', (bucket: InMemoryBucket) => bucket],
    ['by prefixes', (bucket: InMemoryBucket) => Object.assign(bucket, { listAfter: () => undefined })],
  ])('are found with three requests one after the other, however long each took, in a store that lists %s', async (_, as) => {
    const now = MIDNIGHT + 12 * HOUR_MS;
    vi.useFakeTimers({ toFake: ['Date'], now });
    const bucket = new InMemoryBucket();
    const storage = new ObjectStorageFileStorage({ bucket, logger: { warn: () => undefined } });
    const drafts = Array.from({ length: 200 }, (__, index) => {
      const draft = anUploadDraft().with({ kind: 'nowcast', receivedAt: new Date(now - (index % 20) * 500) }).build();
      return { ...draft, conclude: async () => ({ ...(await draft.conclude(null)), receivedAt: new Date(now) }) };
    });
    await Promise.all(drafts.map((draft) => storage.store(draft)));
    await storage.close();
    const segments = bucket.keys.filter((key) => key.startsWith(DIRECTORY));
    expect(segments.length).toBeLessThan(30);
    for (const segment of segments) {
      const { time } = parseName({ kind: 'nowcast', date: DATE }, segment);
      const uploads = (await bucket.read(segment))?.bytes.toString().trimEnd().split('\n').map((line) => JSON.parse(line) as { upload_id: string; received_at: string }) ?? [];
      for (const { upload_id: id, received_at: receivedAt } of uploads) {
        expect(Math.abs(timeOfUuid(id) - time)).toBeLessThanOrEqual(1_000);
        expect(Math.abs(Date.parse(receivedAt) - time)).toBeLessThanOrEqual(10_000);
      }
      if (now - time > 9_000) expect(uploads).toHaveLength(1);
    }
    for (const { uploadId } of drafts.slice(-20)) {
      const count = countRequests(bucket);
      expect(await new BucketUploads(as(bucket)).find(uploadId)).toMatchObject({ uploadId });
      expect(count.rounds).toBeLessThanOrEqual(3);
    }
  });
});

describe('compacted days', () => {
  afterEach(() => vi.useRealTimers());

  /** Stores past days, each in one segment as compaction makes it. Returns the uploads of a customer, newest first. */
  async function storeDays(bucket: InMemoryBucket, days: number, perDay: number, customers: number, firstDay = 0): Promise<Upload[]> {
    vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + 50 * HOUR_MS });
    const ofCustomer: Upload[] = [];
    for (let day = firstDay; day < firstDay + days; day++) {
      const midnight = MIDNIGHT - day * 24 * HOUR_MS;
      const uploads = Array.from({ length: perDay }, (_, index) => uploadAt(midnight + Math.floor((index * 24 * HOUR_MS) / perDay), { customerId: `customer-${index % customers}` }));
      const [first] = customers > 1 ? uploads.slice(1) : uploads;
      ofCustomer.push(...uploads.filter(({ customerId }) => customerId === first?.customerId).reverse());
      const directory = DIRECTORY.replace(DATE, new Date(midnight).toISOString().slice(0, 10));
      await bucket.create(`${directory}${uuidAt(new Date(midnight + 25 * HOUR_MS))}.ndjson`, linesOf(uploads));
    }
    return ofCustomer;
  }

  it.each([
    [10, 4],
    [100, 5],
  ])('are listed with few requests one after the other for one customer of 1,000 (limit %i: %i)', async (limit, rounds) => {
    const bucket = new PagedBucket();
    const uploads = await storeDays(bucket, 1, 120_000, 1_000);
    const count = countRequests(bucket);
    expect(idsOf((await new BucketUploads(bucket).list({ customerId: 'customer-1' }, limit)).uploads)).toEqual(idsOf(uploads.slice(0, limit)));
    expect(count.rounds).toBeLessThanOrEqual(rounds);
    bucket.before = () => undefined;
    expect(idsOf(await listed(bucket, { customerId: 'customer-1' }, 50))).toEqual(idsOf(uploads));
  });

  it.each([
    ['with one upload a day', 'customer-1', 5, 220],
    ['without uploads', 'customer-of-nothing', 12, 2_100],
  ])('are listed with few requests one after the other, however many they are (for a customer %s)', async (_, customerId, rounds, requests) => {
    const bucket = new PagedBucket();
    const uploads = (await storeDays(bucket, 1_000, 5, 5)).filter((upload) => upload.customerId === customerId);
    const count = countRequests(bucket);
    expect(idsOf((await new BucketUploads(bucket).list({ customerId }, 100)).uploads)).toEqual(idsOf(uploads.slice(0, 100)));
    expect(count.rounds).toBeLessThanOrEqual(rounds);
    expect(count.requests).toBeLessThanOrEqual(requests);
  });

  it.each([
    [100, 40],
    [1_000, 45],
  ])('are listed with few requests for all customers (limit %i: %i)', async (limit, requests) => {
    const bucket = new PagedBucket();
    for (let index = 0; index < 5; index++) await own(bucket, uploadAt(MIDNIGHT + 49 * HOUR_MS + index));
    const large = await storeDays(bucket, 1, 20_000, 1, -1);
    await storeDays(bucket, 300, 100, 1);
    const inLarge = large.slice(7_000, 7_001).map(({ uploadId, receivedAt }) => ({ uploadId, receivedAt }));
    for (const after of [undefined, ...inLarge]) {
      const count = countRequests(bucket);
      expect((await new BucketUploads(bucket).list({}, limit, after)).uploads).toHaveLength(limit);
      expect(count.requests).toBeLessThanOrEqual(requests);
    }
  });
});

describe('expired uploads', () => {
  afterEach(() => vi.useRealTimers());

  it('are removed by one of several processes, and again after almost an hour', async () => {
    const bucket = new InMemoryBucket();
    const end = new Date(MIDNIGHT + HOUR_MS);
    const kept = uploadAt(MIDNIGHT + HOUR_MS);
    await own(bucket, uploadAt(MIDNIGHT));
    await own(bucket, kept);
    const processes = [bucket.another(), bucket.another(), bucket.another()].map((each) => new BucketUploads(each));
    const removed = await Promise.all(processes.map((each) => each.removeExpired(end)));
    expect(removed.sort()).toEqual([0, 0, 1]);
    expect(await listed(bucket, {}, 10)).toEqual([kept]);

    await own(bucket, uploadAt(MIDNIGHT + 1));
    await expect(processes[0]?.removeExpired(end)).resolves.toBe(0);
    const later = bucket.another();
    later.aheadMs = HOUR_MS;
    await expect(new BucketUploads(later).removeExpired(end)).resolves.toBe(1);
  });
  it.each([
    ['ten years', 87_600 * HOUR_MS],
    ['a day', 24 * HOUR_MS],
    ['five minutes', HOUR_MS / 12],
    ['three minutes', HOUR_MS / 20],
  ])("are removed by the store's time if this machine's clock is ahead by %s", async (_, aheadMs) => {
    vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + 23.99 * HOUR_MS + aheadMs });
    const bucket = new InMemoryBucket();
    bucket.aheadMs = -aheadMs;
    await own(bucket, uploadAt(MIDNIGHT - 25 * HOUR_MS));
    const kept = uploadAt(MIDNIGHT);
    await own(bucket, kept);
    const today = Math.floor(Date.now() / (24 * HOUR_MS)) * 24 * HOUR_MS;
    await expect(new BucketUploads(bucket).removeExpired(new Date(today))).resolves.toBe(1);
    expect(await listed(bucket, {}, 10)).toEqual([kept]);
  });
});

it("neither opens nor removes another object for a line whose content_path isn't the upload's own", async () => {
  const bucket = new InMemoryBucket();
  const other = `claims/${uuidAt(new Date(MIDNIGHT))}.json`;
  await bucket.create(other, Buffer.from('bytes'));
  const edited = uploadAt(MIDNIGHT, { content: { path: other, type: 'text/csv', size: 5, sha256: 'ab'.repeat(32) } });
  await own(bucket, edited);
  const uploads = new BucketUploads(bucket);
  const found = await uploads.find(edited.uploadId);
  expect(found && (await uploads.openContent(found))).toBeUndefined();
  expect(await uploads.remove(edited.uploadId)).toBe(true);
  expect(await uploads.find(edited.uploadId)).toBeUndefined();
  expect((await bucket.read(other))?.bytes.toString()).toBe('bytes');
});
