import { isUtf8 } from 'node:buffer';

/**
 * The position after the last complete character in a chunk of UTF-8 text. At most three bytes, those of an incomplete
 * character, follow.
 */
export function endOfWholeCharacters(bytes: Uint8Array): number {
  for (let at = bytes.length - 1; at >= Math.max(0, bytes.length - 3); at--) {
    const byte = bytes[at] ?? 0;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return at + length > bytes.length ? at : bytes.length;
  }
  return bytes.length;
}

/** Decodes UTF-8 text chunk by chunk, in time proportional to each chunk's length. A byte order mark is kept. */
export class Utf8Decoder {
  private rest: Buffer = Buffer.alloc(0);

  /**
   * @returns the characters that `chunk` completes; the bytes of an incomplete one are kept for the next chunk. After
   * the last chunk, call `end`.
   * @throws SyntaxError when the bytes aren't UTF-8.
   */
  add(chunk: Buffer): string {
    const bytes = this.rest.length > 0 ? Buffer.concat([this.rest, chunk]) : chunk;
    const end = endOfWholeCharacters(bytes);
    const whole = bytes.subarray(0, end);
    if (!isUtf8(whole)) throw new SyntaxError("The text isn't UTF-8.");
    this.rest = bytes.subarray(end);
    return whole.toString('utf8');
  }

  /** @throws SyntaxError when the text ends within a character. */
  end(): void {
    if (this.rest.length > 0) throw new SyntaxError('The text ends within a character.');
  }
}
