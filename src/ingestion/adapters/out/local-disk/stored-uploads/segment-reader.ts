import { closeQuietly } from '../staged-file.js';
import type { DiskFile } from '../disk.js';
import { NEWLINE } from '../index-lines.js';
import { headOf, type LineHead } from './segment-lines.js';

/** Long enough for most lines, in bytes. */
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

/** Lines that were read together, and where they begin. */
export interface SegmentChunk {
  readonly begin: number;
  readonly lines: readonly SegmentLine[];
}

/**
 * Reads the durable lines of one segment. Lines are sorted by `receivedAt`, except that a line may follow lines that
 * were received up to `MAX_DISORDER_MS` later.
 */
export class SegmentReader {
  private first: Promise<LineHead | undefined> | undefined;

  constructor(
    private readonly file: DiskFile,
    /** A path relative to the store's root. */
    readonly path: string,
    /** The length of the durable lines in bytes. */
    readonly length: number,
  ) {}

  /** The head of the first line; undefined if there is no valid line at the beginning. */
  firstHead(): Promise<LineHead | undefined> {
    this.first ??= this.lineFrom(0).then((line) => line && headOf(line.bytes));
    return this.first;
  }

  /** The head of the last line; undefined if there is no valid line at the end. */
  async lastHead(): Promise<LineHead | undefined> {
    const { lines } = await this.linesBefore(this.length, PROBE_BYTES);
    const last = lines.at(-1);
    return last && headOf(last.bytes);
  }

  /**
   * Where to look for lines that were received at a time or later: all lines before `low` were received earlier, and
   * all lines from `high` on at that time or later, apart from disorder. Both are the beginning or the end of a line.
   */
  async seek(receivedAt: number): Promise<{ low: number; high: number }> {
    let low = 0;
    let high = this.length;
    while (high - low > NEAR_BYTES) {
      const middle = Math.floor((low + high) / 2);
      const line = await this.lineFrom(middle);
      if (!line || line.begin >= high) break;
      const head = headOf(line.bytes);
      if (head && head.receivedAt < receivedAt) low = line.end + 1;
      else high = line.begin;
    }
    return { low, high };
  }

  /** The lines that end before a position, which is the beginning of a line or the segment's end; a chunk of them. */
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

  /** The bytes between two positions. */
  async read(from: number, to: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(to - from);
    return bytes.subarray(0, await this.file.read(bytes, from));
  }

  close(): Promise<void> {
    return closeQuietly(this.file);
  }
}

/** The complete lines of `bytes` from an offset on. `position` is that of the bytes in their segment. */
function linesIn(bytes: Buffer, from: number, position: number): SegmentLine[] {
  const lines: SegmentLine[] = [];
  let begin = from;
  for (let end = bytes.indexOf(NEWLINE, begin); end >= 0; end = bytes.indexOf(NEWLINE, begin)) {
    lines.push({ begin: position + begin, end: position + end, bytes: bytes.subarray(begin, end) });
    begin = end + 1;
  }
  return lines;
}
