import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../../testing/upload-draft.builder.js';
import type { UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { indexLine } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { compactDay } from '../compaction.js';
import { segmentOf } from '../segment-names.js';
import { BucketUploads } from './bucket-uploads.js';

const HOUR_MS = 3_600_000;
const DATE = '2026-03-10';
const STOPS = [0, 1, 2, 3, 5, 8, 20, 40, 60, 80];

/** Pauses a process before its operation `at` on the bucket, until `goOn` is called. */
function stopAt(process: InMemoryBucket, at: number) {
  let count = 0;
  let stop = (): void => undefined;
  let goOn = (): void => undefined;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  const gate = new Promise<void>((resolve) => (goOn = resolve));
  process.before = () => {
    if (count++ < at) return;
    stop();
    return gate;
  };
  return { stopped, goOn };
}

describe.each([
  ['few', 40],
  ['many', 1_010],
])('a day with %s segments that is compacted while it is read', (_, segments) => {
  let whole: InMemoryBucket;
  /** The uploads of the day, newest first. */
  let uploads: Upload[];
  beforeAll(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse(DATE) + 50 * HOUR_MS });
    whole = new InMemoryBucket();
    const earlier = whole.another();
    earlier.aheadMs = -26 * HOUR_MS;
    uploads = await Promise.all(
      Array.from({ length: segments }, async (__, index) => {
        const upload = await anUploadDraft().with({ receivedAt: new Date(Date.parse(DATE) + 23 * HOUR_MS - index * 60_000) }).build().conclude(null);
        await earlier.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
        return upload;
      }),
    );
  });
  afterAll(() => {
    vi.useRealTimers();
  });

  /**
   * Begins to read uploads in a process, compacts the day when that process has done `at` operations, and lets the
   * process go on.
   */
  async function readWhile<T>(at: number, read: (uploads: BucketUploads) => Promise<T>): Promise<{ result: T; bucket: InMemoryBucket }> {
    const bucket = whole.copy();
    const process = bucket.another();
    const { stopped, goOn } = stopAt(process, at);
    const reading = read(new BucketUploads(process));
    await Promise.race([stopped, reading]);
    expect(await compactDay(bucket, 'historical', DATE)).toMatchObject({ targets: 1 });
    goOn();
    return { result: await reading, bucket };
  }

  it.each(STOPS)('is listed without a gap (operation %i)', async (at) => {
    const { result: first, bucket } = await readWhile(at, (stored) => stored.list({}, 25));
    const listed = [...first.uploads];
    for (let next: UploadPosition | null = first.next; next && listed.length < 60; ) {
      const page = await new BucketUploads(bucket).list({}, 25, next);
      listed.push(...page.uploads);
      ({ next } = page);
    }
    expect(listed.map(({ uploadId }) => uploadId)).toEqual(uploads.slice(0, listed.length).map(({ uploadId }) => uploadId));
    expect(listed.length).toBeGreaterThanOrEqual(Math.min(60, segments));
  });

  it.each(STOPS)('has an upload that is found (operation %i)', async (at) => {
    const upload = uploads[30];
    const { result } = await readWhile(at, (stored) => stored.find(upload?.uploadId ?? ''));
    expect(result).toEqual(upload);
  });
});
