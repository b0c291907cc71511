import type { Upload } from '../../../../domain/upload.js';
import type { Bucket, ReadObject } from '../bucket.js';
import { FENCE_AGE_MS } from '../old-fences.js';
import { pauseAfter } from './contention.js';
import { linesIn } from './segment-lines.js';

const MAX_ROUNDS = 10;

/** The content of a segment without the lines that are to be removed. */
export interface Rewriting {
  readonly key: string;
  readonly version: string;
  readonly bytes: Buffer;
  readonly removed: readonly Upload[];
  /**
   * Whether to remove the segment instead of writing it: no line is left, and the segment is so old that no late
   * request of its writer can create it again.
   */
  readonly isOver: boolean;
}

/**
 * Makes the content of a segment without the lines of the uploads that `isWanted` selects; undefined if it has no such
 * line. Writes nothing to the store. Overwrites the memory of `bytes`.
 */
export async function withoutLines(key: string, { bytes, version, ageMs }: ReadObject, isWanted: (upload: Upload) => boolean): Promise<Rewriting | undefined> {
  const removed: Upload[] = [];
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
    removed.push(upload);
  }
  if (removed.length === 0) return undefined;
  keepTo(bytes.length);
  return { key, version, bytes: bytes.subarray(0, length), removed, isOver: length === 0 && ageMs > FENCE_AGE_MS };
}

/**
 * Writes a segment without the lines to remove, or removes the segment. If a segment to be written was changed by
 * another process in the meantime, reads it and tries again. Rejects with errors of the bucket, and after ten attempts.
 *
 * @param first the content for the first attempt.
 * @param isWanted selects the uploads whose lines the other attempts remove.
 * @returns the uploads whose lines were removed; none if another process has removed the lines first. But if the
 *   segment is removed (`isOver`), the result doesn't depend on whether another process has done so first.
 */
export async function rewrite(bucket: Bucket, first: Rewriting, isWanted: (upload: Upload) => boolean): Promise<readonly Upload[]> {
  let rewriting: Rewriting | undefined = first;
  for (let turn = 0; rewriting && turn < MAX_ROUNDS; turn++) {
    const { key, bytes, version, removed, isOver }: Rewriting = rewriting;
    if (isOver) {
      await bucket.remove([key]);
      return removed;
    }
    if ((await bucket.replace(key, bytes, version)) !== undefined) return removed;
    await pauseAfter(turn);
    const object: ReadObject | undefined = await bucket.read(key);
    rewriting = object && (await withoutLines(key, object, isWanted));
  }
  if (rewriting) throw new Error(`${rewriting.key} changes faster than it can be rewritten.`);
  return [];
}
