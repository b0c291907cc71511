import { Turns } from '../../../../common/turns.js';
import type { Bucket, ListedObject } from './bucket.js';
import { MARKERS } from './keys.js';
import { type Day, directoryOf, uploadIdIn } from './segment-names.js';

/**
 * Lists all objects in the directory of a day's segments, in the order of their keys, including empty ones and those
 * with foreign names. Throws errors of the bucket, and the reason of the signal.
 */
export async function* listSegments(bucket: Bucket, day: Day, signal?: AbortSignal): AsyncGenerator<ListedObject> {
  const turns = new Turns();
  for await (const segment of bucket.list(directoryOf(day))) {
    if (turns.isOver) await turns.next();
    signal?.throwIfAborted();
    yield segment;
  }
}

/**
 * The names of the markers (objects in `staging/`). The name of a marker of uploads is given as `uploadIdIn` returns it
 * for their segment. Rejects with errors of the bucket.
 */
export async function markedSegmentIds(bucket: Bucket): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const { key } of bucket.list(MARKERS)) ids.add(uploadIdIn(key));
  return ids;
}
