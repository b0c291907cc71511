import { constants } from 'node:buffer';
import { MIB } from '../../../../common/sizes.js';
import { membersOf } from '../../../application/line-decoding.js';
import { NEWLINE, rawLines } from '../../../application/raw-lines.js';
import type { DiskFile } from './disk.js';

export const NEWLINE_BYTES = Buffer.from([NEWLINE]);
const CHUNK_BYTES = MIB;
const OPENING_BRACE = 0x7b;

/** The warning about a long line that `readLines` omits. */
export const foreignLineWarning = (path: string): string => `${path} has a long line that is not a line of the index; skipping the line.`;

/** The `upload_id` of an index line; undefined if the line isn't JSON in UTF-8 with a text as its `upload_id`. */
export async function uploadIdOf(line: Buffer): Promise<string | undefined> {
  const id = (await membersOf(line, ['upload_id']))?.upload_id;
  return typeof id === 'string' ? id : undefined;
}

/**
 * Yields the lines of a file between two positions (in bytes), without their newlines. Omits an unterminated last line,
 * and long lines that can't be index lines, for each of which it calls `onForeignLine`. Needs about twice as much
 * memory as the longest index line, but at least 1 MiB.
 *
 * @param from must be the beginning of a line.
 */
export async function* readLines(file: DiskFile, from: number, to: number, onForeignLine: () => void): AsyncGenerator<Buffer> {
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

function isForeign(pieces: readonly Buffer[]): boolean {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  return length > CHUNK_BYTES && (pieces[0]?.[0] !== OPENING_BRACE || length > constants.MAX_STRING_LENGTH);
}
