import type { Bucket } from './bucket.js';
import { listSegments, markedUploads } from './day-segments.js';
import { type Day, parseName, uploadIdIn } from './segment-names.js';

/**
 * An empty segment is removed only when it is older than this, in milliseconds. If a younger one were removed, a late
 * request of its writer could still create the segment with its lines.
 */
export const FENCE_AGE_MS = 24 * 60 * 60_000;

export interface FenceRemovalOptions {
  /** Whether to only count the old empty segments, and remove none. */
  readonly dryRun?: boolean;
  /** If it is aborted while the day's segments are listed, the call rejects with its reason, and removes nothing. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Removes the empty segments of a day if they were written more than 24 hours ago by the store's clock. These are
 * segments whose uploads were all removed, and fences, which keep the line of a failed upload or the target of a
 * dropped compaction plan from being written. Leaves segments with foreign names, and the fence of an upload that still
 * has a marker in `staging/`. Rejects with errors of the bucket.
 *
 * @returns the number of segments that were removed; in a dry run, the number of those that would be.
 */
export async function removeOldFences(bucket: Bucket, day: Day, { dryRun = false, signal }: FenceRemovalOptions = {}): Promise<number> {
  const old = new Set<string>();
  for await (const { key, size, ageMs } of listSegments(bucket, day, signal)) {
    if (size === 0 && ageMs > FENCE_AGE_MS && parseName(day, key).origin !== 'foreign') old.add(key);
  }
  const marked = await markedUploads(bucket);
  const keys = [...old].filter((key) => !marked.has(uploadIdIn(key)));
  if (keys.length > 0 && !dryRun) await bucket.remove(keys);
  return keys.length;
}
