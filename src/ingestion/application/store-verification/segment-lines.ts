import { LineText, parseJson } from '../line-text.js';

const NEWLINE = 0x0a;

/** A line of a segment, or its unterminated end. */
export interface SegmentLine {
  readonly segment: string;
  /** Bytes from the segment's beginning. */
  readonly offset: number;
  /** Behind its newline. */
  readonly end: number;
  /** Its JSON, of a long line with its long texts abridged; undefined for what isn't JSON in UTF-8. */
  readonly value: unknown;
  readonly isTorn: boolean;
  /** Whether the next boot cuts it off, if its segment is still open (`StoreView.isOpen`). */
  readonly isMendable: boolean;
}

/** A line as it was split off. */
export interface SplitLine extends Pick<SegmentLine, 'offset' | 'end' | 'value'> {
  /** Whether it holds a zero byte, as blocks do that a disk never wrote; such a line has no value. */
  readonly hasNul: boolean;
}

/** Splits a segment into lines as its bytes come, with a bounded memory however long they are. */
export class LineSplitter {
  private position = 0;
  private rest = new LineText();

  /** Bytes so far. */
  get length(): number {
    return this.position;
  }

  /** Bytes behind the last newline. */
  get restLength(): number {
    return this.rest.length;
  }

  /** The lines that end in the next bytes, whose buffer may be used again after the last one. */
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
