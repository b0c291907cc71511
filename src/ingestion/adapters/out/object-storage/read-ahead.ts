import { MIB } from '../../../../common/sizes.js';
import type { Bucket, ListedObject, ReadObject } from './bucket.js';

const READS_AT_ONCE = 16;
const LISTED_AT_ONCE = 1_000;
const MAX_BYTES_AHEAD = 32 * MIB;

/**
 * Reads listed objects, up to 16 at once, and yields each with its content (undefined if it is missing), in the order
 * of the list. Holds at most 32 MiB of objects, or a single longer object. Throws errors of the bucket, and the
 * signal's reason.
 */
export async function* readAhead(
  bucket: Bucket,
  objects: Iterable<ListedObject>,
  signal?: AbortSignal,
): AsyncGenerator<[ListedObject, ReadObject | undefined]> {
  const rest = objects[Symbol.iterator]();
  let next = rest.next();
  const reads: { readonly listed: ListedObject; readonly object: Promise<ReadObject | undefined> }[] = [];
  let bytes = 0;
  try {
    for (;;) {
      signal?.throwIfAborted();
      for (; !next.done; next = rest.next()) {
        const { value: listed } = next;
        if (reads.length > 0 && (reads.length === READS_AT_ONCE || bytes + listed.size > MAX_BYTES_AHEAD)) break;
        const object = bucket.read(listed.key);
        // A read may reject before it is awaited. Without this handler, the unhandled rejection would end the process.
        object.catch(() => undefined);
        reads.push({ listed, object });
        bytes += listed.size;
      }
      const read = reads.shift();
      if (!read) return;
      yield [read.listed, await read.object];
      bytes -= read.listed.size;
    }
  } finally {
    await Promise.allSettled(reads.map(({ object }) => object));
  }
}

/** Like `readAhead`, for the objects of a listing, of which up to 1,000 are held at a time. */
export async function* readListed(
  bucket: Bucket,
  listing: AsyncIterable<ListedObject>,
): AsyncGenerator<[ListedObject, ReadObject | undefined]> {
  let batch: ListedObject[] = [];
  for await (const object of listing) {
    if (batch.push(object) < LISTED_AT_ONCE) continue;
    yield* readAhead(bucket, batch);
    batch = [];
  }
  yield* readAhead(bucket, batch);
}
