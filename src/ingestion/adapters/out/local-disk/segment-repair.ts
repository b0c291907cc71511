import { hasCode } from '../../../../common/error-code.js';
import { Turns } from '../../../../common/turns.js';
import { NEWLINE, rawLines } from '../../../application/raw-lines.js';
import type { DiskFile } from './disk.js';
import { MAX_BATCH_BYTES } from './index-log.js';
import { uploadIdOf } from './index-lines.js';
import type { SegmentMarker } from './pending-markers.js';
import type { StoreDirectory } from './store-directory.js';

/**
 * Cuts off the incomplete or damaged lines that a crash left at the end of a segment, or everything behind the marker's
 * `durable_length`. Makes the rest durable, or removes the segment if nothing is left. Idempotent.
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
 * The length of a segment without the damaged lines at its end. A crash can damage only the last write, which has at
 * most 1 MiB or is a single longer line. So the last line that begins before the last 1 MiB is checked, and all lines
 * after it. If the end that was read has no such line, or that line isn't valid, twice as much is read, and so on.
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
