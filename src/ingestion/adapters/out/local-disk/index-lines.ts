import { constants } from 'node:buffer';
import { membersOf } from '../../../application/line-decoding.js';
import { NEWLINE, rawLines } from '../../../application/raw-lines.js';
import type { DiskFile } from './disk.js';

export const NEWLINE_BYTES = Buffer.from([NEWLINE]);
const CHUNK_BYTES = 1024 * 1024;
const OPENING_BRACE = 0x7b;

/** The warning about a long line that `readLines` omits from a segment (a file of index lines). */
export const foreignLineWarning = (path: string): string => `${path} has a long line that is not a line of the index; skipping the line.`;

/**
 * The `upload_id` of an index line; undefined if the line isn't JSON in UTF-8 with a text as its `upload_id`. Yields to
 * other work if the line is long.
 */
export async function uploadIdOf(line: Buffer): Promise<string | undefined> {
  const id = (await membersOf(line, ['upload_id']))?.upload_id;
  return typeof id === 'string' ? id : undefined;
}

/**
 * Yields the lines of a file between two positions (in bytes), without their newlines. Omits an unterminated last line.
 * Also omits long lines that can't be index lines (see `isForeign`), and calls `onForeignLine` for each. A line of over
 * 2 MiB is always long; one of over 1 MiB may be, depending on where it begins. Needs about twice as much memory as the
 * longest index line, but at least 1 MiB.
 *
 * @param from must be the beginning of a line; otherwise, the first line that is yielded is incomplete.
 */
export async function* readLines(file: DiskFile, from: number, to: number, onForeignLine: () => void): AsyncGenerator<Buffer> {
  /** The beginning of the current line, if the line began in an earlier chunk. A line may have a hundred chunks. */
  let pieces: Buffer[] = [];
  let isInForeignLine = false;
  for (let position = from; ; ) {
    const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, to - position));
    const read = await file.read(chunk, position);
    if (read === 0) return;
    position += read;
    const bytes = chunk.subarray(0, read);
    const foreignLineEnd = isInForeignLine ? bytes.indexOf(NEWLINE) : -1;
    if (isInForeignLine && foreignLineEnd < 0) continue;
    isInForeignLine = false;
    for (const line of rawLines(bytes.subarray(foreignLineEnd + 1))) {
      yield pieces.length > 0 ? Buffer.concat([...pieces, line.bytes]) : line.bytes;
      pieces = [];
    }
    const rest = bytes.subarray(bytes.lastIndexOf(NEWLINE) + 1);
    if (rest.length > 0) pieces.push(rest);
    if (isForeign(pieces)) {
      isInForeignLine = true;
      pieces = [];
      onForeignLine();
    }
  }
}

/**
 * Whether the beginning of a line, given as `pieces`, shows that the line isn't an index line: the beginning has more
 * than 1 MiB, and its first byte isn't `{`, or it is longer than a string can be.
 */
function isForeign(pieces: readonly Buffer[]): boolean {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  return length > CHUNK_BYTES && (pieces[0]?.[0] !== OPENING_BRACE || length > constants.MAX_STRING_LENGTH);
}
