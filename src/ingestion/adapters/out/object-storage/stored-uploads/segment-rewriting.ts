import type { Upload } from '../../../../domain/upload.js';
import type { Bucket, ReadObject } from '../bucket.js';
import { FENCE_AGE_MS } from '../old-fences.js';
import { pauseAfter } from './contention.js';
import { linesIn } from './line-reading.js';

const MAX_ROUNDS = 10;

export interface Rewriting {
  readonly key: string;
  readonly version: string;
  readonly bytes: Buffer;
  /** The ids of the uploads whose lines are left out. Their lines would take several times as much memory. */
  readonly removed: readonly string[];
  /** Whether to remove the segment: it has no line left, and no late request of its writer can create it again. */
  readonly isOver: boolean;
}

/**
 * The content of a segment without the lines of the selected uploads; undefined if the segment has no such line.
 * Overwrites the bytes that were read.
 *
 * @param onRemoved called with each selected upload, in the order of the lines.
 */
export async function withoutLines(
  key: string,
  { bytes, version, ageMs }: ReadObject,
  isWanted: (upload: Upload) => boolean,
  onRemoved: (upload: Upload) => void = () => undefined,
): Promise<Rewriting | undefined> {
  const removed: string[] = [];
  let length = 0;
  let keptFrom = 0;
  const keepTo = (end: number): void => {
    bytes.copyWithin(length, keptFrom, end);
    length += end - keptFrom;
  };
  for await (const { upload, begin, end } of linesIn(bytes)) {
    if (!isWanted(upload)) continue;
    keepTo(begin);
    keptFrom = end;
    removed.push(upload.uploadId);
    onRemoved(upload);
  }
  if (removed.length === 0) return undefined;
  keepTo(bytes.length);
  return { key, version, bytes: bytes.subarray(0, length), removed, isOver: length === 0 && ageMs > FENCE_AGE_MS };
}

/**
 * Writes a segment without the lines to remove, or removes the segment. Reads the segment again if another process has
 * changed it.
 *
 * @param first the content for the first attempt.
 * @returns the ids of the uploads whose lines were removed. Lines that another process has removed first don't count,
 *   unless the segment is removed (`isOver`).
 * @throws errors of the bucket; an Error after ten attempts.
 */
export async function rewrite(bucket: Bucket, first: Rewriting, isWanted: (upload: Upload) => boolean): Promise<readonly string[]> {
  let rewriting: Rewriting | undefined = first;
  for (let round = 0; rewriting && round < MAX_ROUNDS; round++) {
    const { key, bytes, version, removed, isOver }: Rewriting = rewriting;
    if (isOver) {
      await bucket.remove([key]);
      return removed;
    }
    if ((await bucket.replace(key, bytes, version)) !== undefined) return removed;
    await pauseAfter(round);
    const object: ReadObject | undefined = await bucket.read(key);
    rewriting = object && (await withoutLines(key, object, isWanted));
  }
  if (rewriting) throw new Error(`${rewriting.key} changes faster than it can be rewritten.`);
  return [];
}
