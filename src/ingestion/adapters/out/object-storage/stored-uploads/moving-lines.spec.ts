import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { HOUR_MS } from '../../../../../common/durations.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../../testing/upload-draft.builder.js';
import type { UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { indexLine } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { compactDay } from '../compaction.js';
import { segmentOf } from '../segment-names.js';
import { BucketUploads } from './bucket-uploads.js';

const DATE = '2026-03-10';
const STOPS = [0, 1, 2, 3, 5, 8, 20, 40, 60, 80];

/** Pauses a process before the first operation on the bucket for which `isStop` says so, until `goOn` is called. */
function stopAt(process: InMemoryBucket, isStop: (operation: string, index: number) => boolean) {
  let count = 0;
  let isStopped = false;
  let stop = (): void => undefined;
  let goOn = (): void => undefined;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  const gate = new Promise<void>((resolve) => (goOn = resolve));
  process.before = (operation) => {
    isStopped ||= isStop(operation, count++);
    if (!isStopped) return;
    stop();
    return gate;
  };
  return { stopped, goOn };
}

describe.each([
  ['few segments', 40, 40],
  ['many segments', 1_010, 1_010],
  ['many segments, most of them early,', 1_100, 100],
])('a day with %s that is compacted while it is read', (_, segments, late) => {
  let whole: InMemoryBucket;
  /** The uploads of the day, newest first. */
  let uploads: Upload[];
  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse(DATE) + 50 * HOUR_MS });
    const receivedAt = (index: number): number => Date.parse(DATE) + (index < late ? 23 * HOUR_MS - index * 60_000 : 9 * HOUR_MS - (index - late) * 20_000);
    whole = new InMemoryBucket();
    const earlier = whole.another();
    earlier.aheadMs = -26 * HOUR_MS;
    uploads = await Promise.all(
      Array.from({ length: segments }, async (__, index) => {
        const upload = await anUploadDraft().with({ receivedAt: new Date(receivedAt(index)) }).build().conclude(null);
        await earlier.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
        return upload;
      }),
    );
  });
  afterAll(() => {
    vi.useRealTimers();
  });

  /** Begins to read uploads in a process, compacts the day when that process stops, and lets the process go on. */
  async function readWhile<T>(isStop: Parameters<typeof stopAt>[1], read: (uploads: BucketUploads) => Promise<T>): Promise<{ result: T; bucket: InMemoryBucket }> {
    const bucket = whole.copy();
    const process = bucket.another();
    const { stopped, goOn } = stopAt(process, isStop);
    const reading = read(new BucketUploads(process));
    await Promise.race([stopped, reading]);
    expect(await compactDay(bucket, 'historical', DATE)).toMatchObject({ targets: 1 });
    goOn();
    return { result: await reading, bucket };
  }

  it.each(STOPS)('is listed without a gap (operation %i)', async (at) => {
    const { result: first, bucket } = await readWhile((__, index) => index >= at, (stored) => stored.list({}, 25));
    const listed = [...first.uploads];
    for (let next: UploadPosition | null = first.next; next && listed.length < 60; ) {
      const page = await new BucketUploads(bucket).list({}, 25, next);
      listed.push(...page.uploads);
      ({ next } = page);
    }
    expect(listed.map(({ uploadId }) => uploadId)).toEqual(uploads.slice(0, listed.length).map(({ uploadId }) => uploadId));
    expect(listed.length).toBeGreaterThanOrEqual(Math.min(60, segments));
  });

  it('is listed without a gap if it is compacted before its older segments are listed', async () => {
    let hasRead = false;
    const isOlder = (operation: string): boolean => {
      hasRead ||= operation === 'open';
      return hasRead && operation === 'list';
    };
    const { result } = await readWhile(isOlder, (stored) => stored.list({}, 150));
    expect(result.uploads.map(({ uploadId }) => uploadId)).toEqual(uploads.slice(0, 150).map(({ uploadId }) => uploadId));
  });

  it.each(STOPS)('has an upload that is found (operation %i)', async (at) => {
    const upload = uploads[30];
    const { result } = await readWhile((__, index) => index >= at, (stored) => stored.find(upload?.uploadId ?? ''));
    expect(result).toEqual(upload);
  });
});

describe('the current day', () => {
  let bucket: InMemoryBucket;
  let process: InMemoryBucket;
  let stored: BucketUploads;
  const store = async () => {
    const upload = await anUploadDraft().build().conclude(null);
    await bucket.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
    return upload;
  };
  beforeEach(() => {
    bucket = new InMemoryBucket();
    process = bucket.another();
    stored = new BucketUploads(process);
  });

  it('has no upload that was removed, while others are stored all the time', async () => {
    const removed = await store();
    expect(await stored.remove(removed.uploadId)).toBe(true);
    process.before = async (operation) => { if (operation === 'list') await store(); };
    expect(await stored.find(removed.uploadId)).toBeUndefined();
    expect(await stored.remove(removed.uploadId)).toBe(false);
  });
});

describe.each([
  ['the current day', 0, 40],
  ['a past day with few segments', 50, 40],
  ['a past day with many segments', 50, 1_100],
])('%s', (_, aheadHours, segments) => {
  it('is listed while its segments are removed all the time', async () => {
    const bucket = new InMemoryBucket();
    const uploads: Upload[] = [];
    for (let count = 0; count < segments; count++) {
      const upload = await anUploadDraft().build().conclude(null);
      await bucket.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
      uploads.push(upload);
    }
    const left = uploads.splice(0, 10);
    const process = bucket.another();
    for (const each of [bucket, process]) each.aheadMs = aheadHours * HOUR_MS;
    let isListed = false;
    process.before = async (operation) => {
      const removed = isListed && operation === 'open' ? uploads.pop() : undefined;
      isListed = operation === 'list' || (isListed && !removed);
      if (removed) await bucket.remove([segmentOf(removed)]);
    };
    const { uploads: listed } = await new BucketUploads(process).list({}, segments);
    expect(listed.map(({ uploadId }) => uploadId)).toEqual(expect.arrayContaining(left.map(({ uploadId }) => uploadId)));
  });
});
