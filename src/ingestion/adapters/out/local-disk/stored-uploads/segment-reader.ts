import { closeQuietly } from '../staged-file.js';
import type { DiskFile } from '../disk.js';
import { NEWLINE } from '../index-lines.js';
import { headOf } from './segment-lines.js';

/** How many bytes are read at first to find a single line. Long enough for most lines. */
const PROBE_BYTES = 8 * 1024;
/** `seek` is exact only up to this many bytes, because reading them costs no more than another probe. */
const NEAR_BYTES = 64 * 1024;
const CHUNK_BYTES = 256 * 1024;

/** A line of a segment. Positions are in bytes; `end` is that of the line's newline. */
export interface SegmentLine {
  readonly begin: number;
  readonly end: number;
  readonly bytes: Buffer;
}

/**
 * The `received_at` of the first and the last line of a segment, in milliseconds since 1970. The other lines are in
 * between, give or take MAX_DISORDER_MS.
 */
export interface SegmentSpan {
  readonly first: number;
  readonly last: number;
}

/** Lines that were read together, and the offset in bytes at which the first of them begins. */
export interface SegmentChunk {
  readonly begin: number;
  readonly lines: readonly SegmentLine[];
}

/**
 * Reads the durable lines of one segment. Lines are sorted by `receivedAt`, except that a line may follow lines that
 * were received up to `MAX_DISORDER_MS` later.
 */
export class SegmentReader {
  constructor(
    private readonly file: DiskFile,
    /** Path of the segment, relative to the store's root. */
    readonly path: string,
    /** The length of the durable lines in bytes. */
    readonly length: number,
  ) {}

  /** When the first and the last line were received; undefined if one of them isn't valid. */
  async span(): Promise<SegmentSpan | undefined> {
    const [first, { lines }] = await Promise.all([this.lineFrom(0), this.linesBefore(this.length, PROBE_BYTES)]);
    const last = lines.at(-1);
    const [firstHead, lastHead] = [first && headOf(first.bytes), last && headOf(last.bytes)];
    return firstHead && lastHead && { first: firstHead.receivedAt, last: lastHead.receivedAt };
  }

  /**
   * Where to look for lines that were received at a time or later: all lines before `low` were received earlier, and
   * all lines from `high` on at that time or later, apart from disorder. Both are the beginning or the end of a line.
   *
   * Guesses the position from the times around it, as uploads mostly arrive at an even rate; every third guess is the
   * middle, so that few steps are enough at any rate.
   */
  async seek(receivedAt: number, span: SegmentSpan): Promise<{ low: number; high: number }> {
    let low = { position: 0, time: span.first };
    let high = { position: this.length, time: span.last + 1 };
    for (let step = 1; high.position - low.position > NEAR_BYTES; step++) {
      const expected = (receivedAt - low.time) / (high.time - low.time);
      const share = step % 3 === 0 || Number.isNaN(expected) ? 0.5 : expected;
      const room = high.position - low.position - NEAR_BYTES / 2;
      const guess = low.position + Math.floor(Math.min(Math.max(share * room, NEAR_BYTES / 4), room));
      const line = await this.lineFrom(guess);
      if (!line || line.begin >= high.position) break;
      const time = headOf(line.bytes)?.receivedAt ?? receivedAt;
      if (time < receivedAt) low = { position: line.end + 1, time };
      else high = { position: line.begin, time };
    }
    return { low: low.position, high: high.position };
  }

  /** A chunk of lines: the last ones before a position, which is the beginning of a line or the segment's end. */
  async linesBefore(end: number, chunkBytes = CHUNK_BYTES): Promise<SegmentChunk> {
    for (let size = chunkBytes; ; size *= 2) {
      const from = Math.max(0, end - size);
      const bytes = await this.read(from, end);
      const begin = from === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
      // A newline at the end is that of the only line, which begins before the chunk.
      if (from > 0 && (begin === 0 || begin === bytes.length)) continue;
      return { begin: from + begin, lines: linesIn(bytes, begin, from) };
    }
  }

  /** A chunk of lines: the first ones that begin at a position or after it. Empty if there are none. */
  async linesFrom(position: number, chunkBytes = CHUNK_BYTES): Promise<readonly SegmentLine[]> {
    const from = Math.max(0, position - 1);
    for (let size = chunkBytes; ; size *= 2) {
      const to = Math.min(this.length, from + size);
      const bytes = to > from ? await this.read(from, to) : Buffer.alloc(0);
      const begin = position === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
      const lines = position === 0 || begin > 0 ? linesIn(bytes, begin, from) : [];
      if (lines.length > 0 || to >= this.length) return lines;
    }
  }

  /** The first line that begins at a position or after it; undefined if there is none. */
  async lineFrom(position: number): Promise<SegmentLine | undefined> {
    const from = Math.max(0, position - 1);
    for (let size = PROBE_BYTES; ; size *= 4) {
      const to = Math.min(this.length, from + size);
      const bytes = await this.read(from, to);
      const begin = position === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
      const end = position === 0 || begin > 0 ? bytes.indexOf(NEWLINE, begin) : -1;
      if (end >= 0) return { begin: from + begin, end: from + end, bytes: bytes.subarray(begin, end) };
      if (to === this.length) return undefined;
    }
  }

  /** The bytes of the segment between two positions. */
  async read(from: number, to: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(to - from);
    return bytes.subarray(0, await this.file.read(bytes, from));
  }

  close(): Promise<void> {
    return closeQuietly(this.file);
  }
}

/** The complete lines of `bytes` from an offset on. `position` is the offset of `bytes` in the segment. */
function linesIn(bytes: Buffer, from: number, position: number): SegmentLine[] {
  const lines: SegmentLine[] = [];
  let begin = from;
  for (let end = bytes.indexOf(NEWLINE, begin); end >= 0; end = bytes.indexOf(NEWLINE, begin)) {
    lines.push({ begin: position + begin, end: position + end, bytes: bytes.subarray(begin, end) });
    begin = end + 1;
  }
  return lines;
}
