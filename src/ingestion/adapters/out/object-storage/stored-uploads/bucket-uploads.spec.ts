import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { uuidAt } from '../../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { indexLine } from '../../../../domain/layout.js';
import { comparePositions } from '../../../../domain/upload-filter.js';
import type { Upload } from '../../../../domain/upload.js';
import type { UploadFilter, UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { compactDay } from '../compaction.js';
import { segmentOf } from '../segment-names.js';
import { BucketUploads } from './bucket-uploads.js';

const HOUR_MS = 3_600_000;
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

/** Stores index lines as uploads without a file do: in a segment named by the time of the first upload. */
const share = (bucket: InMemoryBucket, uploads: readonly Upload[]) => bucket.create(`${DIRECTORY}${uuidAt(uploads[0]?.receivedAt ?? new Date())}.ndjson`, linesOf(uploads));
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
    const together = Array.from({ length: 3 }, (_, index) => uploadAt(at + 1_500 * index, { beganAt: at + 1_000 * index }));
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

/**
 * Counts the requests to the bucket (`requests`), and how many rounds of them followed each other (`rounds`). All
 * requests that wait at the same time are answered in one round.
 */
function countRequests(bucket: InMemoryBucket) {
  const count = { requests: 0, rounds: 0 };
  let round: Promise<void> | undefined;
  bucket.before = () => {
    count.requests += 1;
    return (round ??= (async () => {
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
      count.rounds += 1;
      round = undefined;
    })());
  };
  return count;
}

const idsOf = (uploads: readonly Upload[]) => uploads.map(({ uploadId }) => uploadId);

describe.each([
  ['the current day', MIDNIGHT + 22.9 * HOUR_MS, false, 4],
  ['a past day that is not compacted', MIDNIGHT + 50 * HOUR_MS, false, 10],
  ['a past day that is compacted', MIDNIGHT + 50 * HOUR_MS, true, 3],
])('the uploads of %s with many segments', (_, now, isCompacted, rounds) => {
  let bucket: InMemoryBucket;
  let uploads: Upload[];
  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now });
    bucket = new InMemoryBucket();
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
      expect(count.rounds).toBeLessThanOrEqual(rounds);
      expect(count.requests).toBeLessThan(150);
    }
  });

  it('are listed with few requests one after the other', async () => {
    const count = countRequests(bucket);
    expect((await new BucketUploads(bucket).list({}, 10)).uploads).toEqual(uploads.slice(0, 10));
    expect(count.rounds).toBeLessThanOrEqual(rounds);
  });

  it('are not found under another id, with a limited number of requests', async () => {
    const count = countRequests(bucket);
    expect(await new BucketUploads(bucket).find(uuidAt(new Date(MIDNIGHT + 5 * HOUR_MS)))).toBeUndefined();
    expect(count.requests).toBeLessThan(300);
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
});
