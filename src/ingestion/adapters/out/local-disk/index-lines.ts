import { constants, isUtf8 } from 'node:buffer';
import type { DiskFile } from './disk.js';

export const NEWLINE = 0x0a;
export const NEWLINE_BYTES = Buffer.from([NEWLINE]);
const CHUNK_BYTES = 1024 * 1024;
const OPENING_BRACE = 0x7b;

/** The warning about a long line that `readLines` omits from a segment (a file of index lines). */
export const foreignLineWarning = (path: string): string => `${path} has a long line that is not a line of the index; skipping the line.`;

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
 * A line of more than 1 MiB that can't be an index line is omitted, and `onForeignLine` is called for it. Needs as much
 * memory as the longest index line, but at least 1 MiB.
 */
export async function* readLines(file: DiskFile, from: number, to: number, onForeignLine: () => void): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  let isInForeignLine = false;
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let position = from; ; ) {
    const read = await file.read(chunk.subarray(0, Math.min(CHUNK_BYTES, to - position)), position);
    if (read === 0) return;
    position += read;
    const bytes = chunk.subarray(0, read);
    const foreignLineEnd = isInForeignLine ? bytes.indexOf(NEWLINE) : -1;
    if (isInForeignLine && foreignLineEnd < 0) continue;
    isInForeignLine = false;
    rest = Buffer.concat([rest, bytes.subarray(foreignLineEnd + 1)]);
    let begin = 0;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE, begin)) {
      yield rest.subarray(begin, end);
      begin = end + 1;
    }
    rest = rest.subarray(begin);
    if (rest.length > CHUNK_BYTES && isForeign(rest)) {
      isInForeignLine = true;
      rest = Buffer.alloc(0);
      onForeignLine();
    }
  }
}

/**
 * Whether the beginning of a line shows that it isn't an index line: it doesn't begin a JSON object, or is longer than
 * a string can be.
 */
const isForeign = (line: Buffer): boolean => line[0] !== OPENING_BRACE || line.length > constants.MAX_STRING_LENGTH;
