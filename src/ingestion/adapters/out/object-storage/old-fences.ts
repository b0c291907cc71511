import { DAY_MS } from '../../../../common/durations.js';
import type { Bucket } from './bucket.js';
import { listSegments, markedSegmentIds } from './day-segments.js';
import { type Day, parseName, uploadIdIn } from './segment-names.js';

/** After the removal of a younger empty segment, a late request of its writer could still create it, with its lines. */
export const FENCE_AGE_MS = DAY_MS;

export interface FenceRemovalOptions {
  readonly dryRun?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Removes the empty segments of a day that were written more than 24 hours ago by the store's clock: fences, and
 * segments whose uploads were all removed. Leaves segments with foreign names, and fences whose uploads still have a
 * marker in `staging/`. Rejects with errors of the bucket, and with the signal's reason.
 *
 * @returns the number of segments that were removed; in a dry run, the number of those that would be.
 */
export async function removeOldFences(bucket: Bucket, day: Day, { dryRun = false, signal }: FenceRemovalOptions = {}): Promise<number> {
  const old = new Set<string>();
  for await (const { key, size, ageMs } of listSegments(bucket, day, signal)) {
    if (size === 0 && ageMs > FENCE_AGE_MS && parseName(day, key).origin !== 'foreign') old.add(key);
  }
  const marked = await markedSegmentIds(bucket);
  const keys = [...old].filter((key) => !marked.has(uploadIdIn(key)));
  if (keys.length > 0 && !dryRun) await bucket.remove(keys);
  return keys.length;
}
