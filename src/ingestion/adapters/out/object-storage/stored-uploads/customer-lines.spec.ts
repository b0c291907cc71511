import { afterEach, expect, it, vi } from 'vitest';
import { HOUR_MS } from '../../../../../common/durations.js';
import { MIB } from '../../../../../common/sizes.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../../testing/upload-draft.builder.js';
import type { UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { indexLine } from '../../../../domain/layout.js';
import type { ByteRange } from '../bucket.js';
import { BucketUploads } from './bucket-uploads.js';

const DATE = '2026-03-10';
const MIDNIGHT = Date.parse(DATE);

/** A bucket that sends objects in pieces of 64 KiB, as a store does. */
class BucketInPieces extends InMemoryBucket {
  bytesSent = 0;

  override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const pieces = await super.open(key, range);
    return pieces && this.inPieces(pieces);
  }

  private async *inPieces(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      for (let at = 0; at < piece.length; at += 65_536) {
        const part = piece.subarray(at, at + 65_536);
        this.bytesSent += part.length;
        yield part;
      }
    }
  }
}

afterEach(() => {
  vi.useRealTimers();
});

it.each([
  ['short', 1],
  ['longer than a block of them', 5 * MIB],
])("a customer's uploads are listed from a long segment with lines that are %s, of this customer and of another", async (_, length) => {
  vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + 50 * HOUR_MS });
  const uploads = await Promise.all(
    Array.from({ length: 60_000 }, (__, index) =>
      anUploadDraft()
        .with({
          customerId: `customer-${index % 1_500}`,
          additionalData: index === 5_000 || index === 30_001 ? 'x'.repeat(length) : null,
          receivedAt: new Date(MIDNIGHT + index * 1_400),
        })
        .build()
        .conclude(null),
    ),
  );
  const lines = uploads.map((upload, index) => {
    const line = indexLine(upload);
    // Other programs may write the id of the customer in another way.
    return index % 3_000 === 1 ? line.replace('"customer_id":"customer-1"', '"customer_id": "\\u0063ustomer-1"') : line;
  });
  const bucket = new BucketInPieces();
  const segment = Buffer.from(lines.map((line) => `${line}\n`).join(''));
  await bucket.create(`uploads/kind=historical/date=${DATE}/${uuidAt(new Date(MIDNIGHT + 25 * HOUR_MS))}.ndjson`, segment);
  const expected = uploads.filter(({ customerId }) => customerId === 'customer-1').reverse();
  const listed: string[] = [];
  for (let next: UploadPosition | null | undefined; next !== null && listed.length < 100; ) {
    const page = await new BucketUploads(bucket).list({ customerId: 'customer-1' }, 100, next);
    listed.push(...page.uploads.map(({ uploadId }) => uploadId));
    ({ next } = page);
  }
  expect(listed).toEqual(expected.map(({ uploadId }) => uploadId));
  expect(bucket.bytesSent).toBeLessThan(5 * segment.length);
});
