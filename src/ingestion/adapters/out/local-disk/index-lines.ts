import { isUtf8 } from 'node:buffer';
import type { DiskFile } from './disk.js';

export const NEWLINE = 0x0a;
export const NEWLINE_BYTES = Buffer.from([NEWLINE]);
const CHUNK_BYTES = 1024 * 1024;
/** Lines that are longer aren't lines of the index, which have a few kilobytes at most. */
const MAX_LINE_BYTES = 1024 * 1024;

/** The warning about a line that `readLines` omits, in the segment at a path. */
export const longLineWarning = (path: string): string => `${path} has a line of more than 1 MiB, which is not a line of the index; skipping the line.`;

/** The `upload_id` of an index line; undefined if the line isn't JSON in UTF-8 with a text as its `upload_id`. */
export function uploadIdOf(line: Buffer): string | undefined {
  if (!isUtf8(line)) return undefined;
  try {
    const { upload_id: id } = JSON.parse(line.toString()) as { upload_id?: unknown };
    return typeof id === 'string' ? id : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Yields the lines of a file between two positions (in bytes), without their newlines. Omits an unterminated last line.
 * Calls `onLongLine` for a line of more than 1 MiB, and omits the line. Needs a few MiB of memory.
 */
export async function* readLines(file: DiskFile, from: number, to: number, onLongLine: () => void): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  let isInLongLine = false;
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let position = from; ; ) {
    const read = await file.read(chunk.subarray(0, Math.min(CHUNK_BYTES, to - position)), position);
    if (read === 0) return;
    position += read;
    const bytes = chunk.subarray(0, read);
    const longLineEnd = isInLongLine ? bytes.indexOf(NEWLINE) : -1;
    if (isInLongLine && longLineEnd < 0) continue;
    isInLongLine = false;
    rest = Buffer.concat([rest, bytes.subarray(longLineEnd + 1)]);
    let begin = 0;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE, begin)) {
      yield rest.subarray(begin, end);
      begin = end + 1;
    }
    rest = rest.subarray(begin);
    if (rest.length > MAX_LINE_BYTES) {
      isInLongLine = true;
      rest = Buffer.alloc(0);
      onLongLine();
    }
  }
}
