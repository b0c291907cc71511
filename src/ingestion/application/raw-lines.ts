export const NEWLINE = 0x0a;

export interface RawLine {
  /** The offset of the line in its file or object, in bytes. */
  readonly begin: number;
  /** The offset after the line's newline, in bytes. */
  readonly end: number;
  /** The line without its newline. Shares the memory of the bytes in which the line was found. */
  readonly bytes: Buffer;
}

/**
 * Yields the lines in `bytes`, which must begin where a line begins. Leaves out an incomplete last line.
 *
 * @param offset the offset of `bytes` in their file or object.
 * @param isSkipped whether to leave out the line that begins at a position in `bytes`, which costs far less than
 *   yielding it.
 */
export function* rawLines(bytes: Buffer, offset = 0, isSkipped: (begin: number) => boolean = () => false): Generator<RawLine> {
  let begin = 0;
  for (let newline = bytes.indexOf(NEWLINE); newline >= 0; newline = bytes.indexOf(NEWLINE, begin)) {
    if (!isSkipped(begin)) yield { begin: offset + begin, end: offset + newline + 1, bytes: bytes.subarray(begin, newline) };
    begin = newline + 1;
  }
}
