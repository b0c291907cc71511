import { parseJson } from '../../../common/text.js';
import { digestOf } from './digest-set.js';
import { LineText } from '../line-text.js';
import { NEWLINE, type RawLine, rawLines } from '../raw-lines.js';

/** A line of a segment (a file of index lines), or the end of the segment after its last newline (`isTorn`). */
export interface SegmentLine {
  readonly segment: string;
  /** Where the line begins, in bytes from the segment's beginning. */
  readonly offset: number;
  readonly end: number;
  /** The JSON value; undefined if the line isn't JSON in UTF-8. Long texts in a long line are abridged. */
  readonly value: unknown;
  readonly isTorn: boolean;
  /** Whether the next boot will cut the line off, if its segment is still open (`StoreView.isOpen`). */
  readonly isRepairable: boolean;
}

/** The members of the JSON object in a line; none is set if the line contains no object. */
export const members = ({ value }: SegmentLine): Record<string, unknown> => (value ?? {}) as Record<string, unknown>;

/** The digest of the upload's id in a line, for a `DigestSet`; undefined if the line has no id. */
export function uploadKey(line: SegmentLine): Buffer | undefined {
  const { upload_id: uploadId } = members(line);
  return typeof uploadId === 'string' ? digestOf(uploadId) : undefined;
}

export interface SplitLine extends Pick<SegmentLine, 'offset' | 'end' | 'value'> {
  /** Whether the line has NUL bytes: after a power cut, blocks that never reached the disk read as zeros. */
  readonly hasNul: boolean;
}

/** Splits a segment into lines as its bytes arrive, in bounded memory. */
export class LineSplitter {
  private position = 0;
  private rest = new LineText();

  get length(): number {
    return this.position;
  }

  get restLength(): number {
    return this.rest.length;
  }

  /** Yields the lines that end in the next bytes of the segment. Afterwards the caller may reuse the buffer. */
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
