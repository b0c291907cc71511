import { digestOf } from './digest-set.js';
import { LineText, parseJson } from '../line-text.js';

const NEWLINE = 0x0a;

/** A line of a segment, or the segment's unterminated end. */
export interface SegmentLine {
  readonly segment: string;
  /** The position of the line in the segment, in bytes. */
  readonly offset: number;
  /** The position in the segment after the line and its newline, in bytes. */
  readonly end: number;
  /** The line's JSON value; undefined if the line isn't JSON in UTF-8. Long texts of a long line are abridged. */
  readonly value: unknown;
  readonly isTorn: boolean;
  /** Whether the next boot cuts the line off, provided that the line's segment is still open (`StoreView.isOpen`). */
  readonly isMendable: boolean;
}

/** The members of a line's JSON object; empty if the line is none. */
export const members = ({ value }: SegmentLine): Record<string, unknown> => (value ?? {}) as Record<string, unknown>;

/** The digest of the id of a line's upload, for a `DigestSet`; undefined if the line has none. */
export function uploadKey(line: SegmentLine): Buffer | undefined {
  const { upload_id: uploadId } = members(line);
  return typeof uploadId === 'string' ? digestOf(uploadId) : undefined;
}

/** A line as `LineSplitter` yields it. */
export interface SplitLine extends Pick<SegmentLine, 'offset' | 'end' | 'value'> {
  /** Whether the line has a zero byte, and so no value. Blocks that never reached the disk read as zeros. */
  readonly hasNul: boolean;
}

/** Splits a segment into lines as its bytes arrive. Memory stays bounded, even for long lines. */
export class LineSplitter {
  private position = 0;
  private rest = new LineText();

  /** How many bytes were added so far. */
  get length(): number {
    return this.position;
  }

  /** How many bytes were added after the last newline. */
  get restLength(): number {
    return this.rest.length;
  }

  /** Adds bytes and yields the lines that end in them. The caller may reuse the buffer when the iteration has ended. */
  *add(bytes: Buffer): Generator<SplitLine> {
    const from = this.position;
    let begin = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, begin)) {
      const line = this.line(bytes.subarray(begin, end), from + end + 1);
      begin = end + 1;
      yield line;
    }
    if (begin < bytes.length) this.rest.add(bytes.subarray(begin));
    this.position = from + bytes.length;
  }

  private line(bytes: Buffer, end: number): SplitLine {
    const { rest } = this;
    const offset = end - 1 - bytes.length - rest.length;
    if (rest.length === 0) {
      const value = parseJson(bytes);
      return { offset, end, value, hasNul: value === undefined && bytes.includes(0) };
    }
    rest.add(bytes);
    this.rest = new LineText();
    return { offset, end, value: rest.parse(), hasNul: rest.hasNul };
  }
}
