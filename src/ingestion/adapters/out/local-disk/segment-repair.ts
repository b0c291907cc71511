import { Turns } from '../../../../common/turns.js';
import { NEWLINE, rawLines } from '../../../application/raw-lines.js';
import { hasCode } from './disk-error.js';
import type { DiskFile } from './disk.js';
import { MAX_BATCH_BYTES } from './index-log.js';
import { uploadIdOf } from './index-lines.js';
import type { SegmentMarker } from './pending-markers.js';
import type { StoreDirectory } from './store-directory.js';

/**
 * Cuts off the incomplete or damaged lines that a crash left at the end of a segment (a file of index lines), or
 * everything behind the marker's `durable_length`, if it has one. Makes the rest durable. Removes the segment if
 * nothing is left of it. Also resolves if the segment is missing. Idempotent.
 *
 * @throws NotAFileError if something else has the segment's name; an error of the file system.
 */
export async function repairSegment(store: StoreDirectory, marker: SegmentMarker): Promise<void> {
  const file = await store.disk.openWritable(store.at(marker.segment)).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (!file) return;
  try {
    const length = await cut(file, marker.durable_length);
    if (length === 0) await store.removeDurably(marker.segment);
  } finally {
    await file.close();
  }
}

async function cut(file: DiskFile, durableLength: number | undefined): Promise<number> {
  const size = await file.size();
  const length = durableLength ?? (await soundLength(file, size));
  if (length < size) await file.truncate(length);
  await file.sync();
  return length;
}

/**
 * The length of a segment without the incomplete or damaged lines at its end, in bytes. A crash can damage only the
 * last write, which has at most 1 MiB or is a single longer line. So this function reads the last 2 MiB. Of the lines
 * that begin before the last 1 MiB, it takes the last one, and checks that line and all lines after it. If there is no
 * such line, or the line isn't valid, the function reads twice as much, and so on, up to the whole segment.
 */
async function soundLength(file: DiskFile, size: number): Promise<number> {
  for (let window = 2 * MAX_BATCH_BYTES; ; window *= 2) {
    const from = Math.max(0, size - window);
    const end = Buffer.alloc(size - from);
    await file.read(end, from);
    const begin = from === 0 ? 0 : end.lastIndexOf(NEWLINE, -MAX_BATCH_BYTES - 1) + 1;
    const sound = await soundLines(end, begin);
    if (from === 0 || (begin > 0 && sound > begin)) return from + sound;
  }
}

/**
 * The offset in `bytes` of the first invalid or incomplete line from `begin` on; the length of `bytes` if there is
 * none. Yields to other work of the process.
 */
async function soundLines(bytes: Buffer, begin: number): Promise<number> {
  let sound = begin;
  const turns = new Turns();
  for (const { end, bytes: line } of rawLines(bytes.subarray(begin), begin)) {
    if (turns.isOver) await turns.next();
    if ((await uploadIdOf(line)) === undefined) break;
    sound = end;
  }
  return sound;
}
