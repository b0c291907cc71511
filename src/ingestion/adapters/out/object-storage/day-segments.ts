import type { Bucket, ListedObject } from './bucket.js';
import { MARKERS } from './keys.js';
import { type Day, directoryOf, uploadIdIn } from './segment-names.js';

/**
 * The segments of a day in the order of their keys, without repetitions: a store's listing may repeat a segment, and
 * compaction must not merge its lines twice. Rejects with errors of the bucket and the reason of the signal.
 */
export async function listSegments(bucket: Bucket, day: Day, signal?: AbortSignal): Promise<ListedObject[]> {
  const segments = new Map<string, ListedObject>();
  for await (const segment of bucket.list(directoryOf(day))) segments.set(segment.key, segment);
  signal?.throwIfAborted();
  return [...segments.values()].sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
}

/**
 * Ids of the uploads that have a marker (an object in `staging/`): uploads in progress, and uploads that failed or
 * whose process crashed, until a sweeper has completed or removed them. Rejects with errors of the bucket.
 */
export async function markedUploads(bucket: Bucket): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const { key } of bucket.list(MARKERS)) ids.add(uploadIdIn(key));
  return ids;
}
