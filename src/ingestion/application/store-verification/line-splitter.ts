import { parseJson } from '../../../common/text.js';
import { digestOf } from './digest-set.js';
import { LineText } from '../line-text.js';
import { NEWLINE, type RawLine, rawLines } from '../raw-lines.js';

/** A line of a segment (a file of index lines), or the end of the segment after its last newline (`isTorn`). */
export interface SegmentLine {
  readonly segment: string;
  /** The position in the segment at which the line begins, in bytes. */
  readonly offset: number;
  /** The position in the segment after the line and its newline, in bytes. */
  readonly end: number;
  /** The line's JSON value; undefined if the line isn't JSON in UTF-8. Long texts in a long line are abridged. */
  readonly value: unknown;
  readonly isTorn: boolean;
  /**
   * Whether the next boot will cut the line off, provided that the line's segment is still open (`StoreView.isOpen`).
   * Such a line was left by a crash or power cut, or is still being written.
   */
  readonly isRepairable: boolean;
}

/** The members of the JSON object in a line; empty if the line contains no object. */
export const members = ({ value }: SegmentLine): Record<string, unknown> => (value ?? {}) as Record<string, unknown>;

/** The digest of the upload's id in a line, for a `DigestSet`; undefined if the line has no id. */
export function uploadKey(line: SegmentLine): Buffer | undefined {
  const { upload_id: uploadId } = members(line);
  return typeof uploadId === 'string' ? digestOf(uploadId) : undefined;
}

/** A line as `LineSplitter` yields it, without the name of its segment. */
export interface SplitLine extends Pick<SegmentLine, 'offset' | 'end' | 'value'> {
  /** Whether the line has a zero byte. After a power cut, blocks that never reached the disk read as zeros. */
  readonly hasNul: boolean;
}

/** Splits a segment into lines as its bytes arrive, in bounded memory. */
export class LineSplitter {
  private position = 0;
  private rest = new LineText();

  /** How many bytes of the segment were added so far. */
  get length(): number {
    return this.position;
  }

  /** How many bytes of the segment were added after its last newline. */
  get restLength(): number {
    return this.rest.length;
  }

  /**
   * Adds the next bytes of the segment, and yields the lines that end in these bytes. The caller may reuse the buffer
   * when the iteration has ended.
   */
  *add(bytes: Buffer): Generator<SplitLine> {
    for (const line of rawLines(bytes, this.position)) yield this.split(line);
    const rest = bytes.subarray(bytes.lastIndexOf(NEWLINE) + 1);
    if (rest.length > 0) this.rest.add(rest);
    this.position += bytes.length;
  }

  private split({ begin, end, bytes }: RawLine): SplitLine {
    const { rest } = this;
    const offset = begin - rest.length;
    if (rest.length === 0) {
      const value = parseJson(bytes);
      return { offset, end, value, hasNul: value === undefined && bytes.includes(0) };
    }
    rest.add(bytes);
    this.rest = new LineText();
    return { offset, end, value: rest.parse(), hasNul: rest.hasNul };
  }
}
