import { LONG_LINE_BYTES } from '../../../../application/line-decoding.js';
import { NEWLINE } from '../../../../application/raw-lines.js';
import type { ByteRange } from '../bucket.js';

export interface FoundText {
  readonly range: ByteRange;
  /** The bytes of the line, without the newline; undefined if the line has more than 64 KiB. */
  readonly bytes: Buffer | undefined;
}

/** Finds the lines with a text while a segment is read. Holds at most 64 KiB of an incomplete line. */
export class LineScan {
  private rest: Buffer = Buffer.alloc(0);
  private at: number;
  private begin: number;
  private hasText = false;

  /** @param first the offset of the first piece in the segment; a line must begin there. */
  constructor(
    private readonly text: string,
    first: number,
  ) {
    this.at = first;
    this.begin = first;
  }

  *add(piece: Uint8Array): Generator<FoundText> {
    const bytes = Buffer.concat([this.rest, piece]);
    for (let from = 0; ; ) {
      const found = this.hasText ? 0 : bytes.indexOf(this.text, from);
      const newline = found < 0 ? -1 : bytes.indexOf(NEWLINE, found);
      if (newline < 0) break;
      yield this.line(bytes, found, newline);
      this.hasText = false;
      from = newline + 1;
    }
    this.keep(bytes);
  }

  private line(bytes: Buffer, found: number, newline: number): FoundText {
    const before = bytes.lastIndexOf(NEWLINE, found);
    const first = before < 0 ? this.begin : this.at + before + 1;
    const end = this.at + newline;
    return { range: { first, last: end - 1 }, bytes: end - first > LONG_LINE_BYTES ? undefined : bytes.subarray(first - this.at, newline) };
  }

  /** Keeps an incomplete line; of one longer than 64 KiB, only the last bytes, where the text may have begun. */
  private keep(bytes: Buffer): void {
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (end > 0) this.begin = this.at + end;
    this.rest = bytes.subarray(end);
    if (this.rest.length > LONG_LINE_BYTES) {
      this.hasText ||= this.rest.includes(this.text);
      this.rest = this.rest.subarray(-this.text.length);
    }
    this.at += bytes.length - this.rest.length;
  }
}
