import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { HOUR_MS } from '../../../../../common/durations.js';
import { KIB } from '../../../../../common/sizes.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import type { UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { indexLine } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import type { ByteRange, ReadObject } from '../bucket.js';
import { BucketUploads } from './bucket-uploads.js';

const DATE = '2026-03-10';
const MIDNIGHT = Date.parse(DATE);
/** The lines of a day, about 24 MiB in one segment. */
const LINES = 20_000;

/** Counts the bytes that the bucket sends. */
class CountingBucket extends InMemoryBucket {
  bytesSent = 0;

  override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const pieces = await super.open(key, range);
    return pieces && this.counted(pieces);
  }

  override async read(key: string): Promise<ReadObject | undefined> {
    const object = await super.read(key);
    this.bytesSent += object?.bytes.length ?? 0;
    return object;
  }

  private async *counted(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      this.bytesSent += piece.length;
      yield piece;
    }
  }
}

function uploadAt(index: number): Upload {
  const time = MIDNIGHT + Math.floor((index * 24 * HOUR_MS) / LINES);
  return {
    uploadId: uuidAt(new Date(time)),
    kind: 'nowcast',
    customerId: 'customer-1',
    filename: 'load.csv',
    manufacturer: 'Acme',
    idempotencyKey: null,
    additionalData: 'x'.repeat(900),
    receivedAt: new Date(time + 2),
    content: null,
  };
}

const uploads = Array.from({ length: LINES }, (_, index) => uploadAt(index));
const newestFirst = uploads.map(({ uploadId }) => uploadId).reverse();
const lineBytes = indexLine(uploadAt(0)).length + 1;

let bucket: CountingBucket;
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + 50 * HOUR_MS });
  bucket = new CountingBucket();
  // As compaction names a segment, which puts the lines of a day into segments of up to 64 MiB.
  const key = `uploads/kind=nowcast/date=${DATE}/${uuidAt(new Date(MIDNIGHT + 25 * HOUR_MS))}.ndjson`;
  await bucket.create(key, Buffer.from(uploads.map((upload) => `${indexLine(upload)}\n`).join('')));
});
afterAll(() => {
  vi.useRealTimers();
});

it.each([1, 10, 100, 1_000])('a first page of %i uploads takes at most 256 KiB more of a long segment than twice their lines', async (limit) => {
  bucket.bytesSent = 0;
  const { uploads: page } = await new BucketUploads(bucket).list({}, limit);
  expect(page.map(({ uploadId }) => uploadId)).toEqual(newestFirst.slice(0, limit));
  expect(bucket.bytesSent).toBeLessThan(2 * limit * lineBytes + 256 * KIB);
});

it.each<[string, (position: UploadPosition) => Promise<readonly Upload[]>]>([
  ['after another', async (position) => (await new BucketUploads(bucket).list({}, 100, position)).uploads],
  ['before a time', async ({ receivedAt: to }) => (await new BucketUploads(bucket).list({ to }, 100)).uploads],
])('a page %s takes an eighth of a long segment at most, wherever it begins', async (_, pageAt) => {
  for (const [at, position] of uploads.entries()) {
    if (at % 2_000 !== 999) continue;
    bucket.bytesSent = 0;
    const page = await pageAt(position);
    expect(page.map(({ uploadId }) => uploadId)).toEqual(newestFirst.slice(LINES - at, LINES - at + 100));
    expect(bucket.bytesSent).toBeLessThan((LINES * lineBytes) / 8);
  }
});
