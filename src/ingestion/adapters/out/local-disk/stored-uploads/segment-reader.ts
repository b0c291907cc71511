import { MemoryBudget } from '../../../../../common/memory-budget.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import { NEWLINE, type RawLine, rawLines } from '../../../../application/raw-lines.js';
import { closeQuietly, type DiskFile } from '../disk.js';
import { readLines } from '../index-lines.js';
import { ChunkBuffer } from './chunk-buffer.js';
import type { CustomerLines } from '../../../../application/customer-lines.js';
import { headOf } from './line-head.js';
import { LineTimes } from './line-times.js';

const PROBE_BYTES = 8 * 1024;
/** `seek` ends at this distance: reading so few bytes costs no more than another step. */
const NEAR_BYTES = 32 * 1024;
const CHUNK_BYTES = 256 * 1024;
/** Memory for the long lines of all readers that are given no `memory`. Such a reader waits while this is used up. */
const sharedMemory = new MemoryBudget();

/**
 * By how many milliseconds lines of a segment may be out of order: a line is written some time after its upload was
 * complete, so it may follow lines that were received up to this much later. Searches by time depend on this limit.
 */
export const MAX_DISORDER_MS = 10_000;

/**
 * The `received_at` of the first and the last line of a segment (a file of index lines), in milliseconds since 1970.
 * Other lines may be outside, by at most MAX_DISORDER_MS.
 */
export interface SegmentSpan {
  readonly first: number;
  readonly last: number;
}

export interface SegmentChunk {
  readonly begin: number;
  readonly lines: readonly RawLine[];
}

/** Reads the durable lines of one segment. */
export class SegmentReader {
  private heldBytes = 0;

  constructor(
    private readonly file: DiskFile,
    readonly path: string,
    /** The length of the durable lines, in bytes. */
    readonly length: number,
    /**
     * Where `lineFrom` and `linesBefore` take memory for a line of more than 512 KiB, and for some shorter ones. The
     * memory is given back when the next such line is read, or the reader is closed.
     */
    private readonly memory: LineMemory = sharedMemory.hold('answer'),
  ) {}

  /** The times of the first and the last line; undefined if one of the two lines isn't valid. */
  async span(): Promise<SegmentSpan | undefined> {
    const first = await this.lineFrom(0);
    const firstHead = first && (await headOf(first.bytes));
    const last = (await this.linesBefore(this.length, PROBE_BYTES)).lines.at(-1);
    const lastHead = last && (await headOf(last.bytes));
    return firstHead && lastHead && { first: firstHead.receivedAt, last: lastHead.receivedAt };
  }

  async times(): Promise<LineTimes> {
    const times = new LineTimes();
    for await (const line of readLines(this.file, 0, this.length, () => { times.addUnknown(); })) {
      const head = await headOf(line);
      if (head) times.add(head.uploadId, head.receivedAt);
      else times.addUnknown();
    }
    return times;
  }

  /**
   * Finds where in the segment the lines begin that were received at a given time or later: between `low` and `high`,
   * each the beginning of a line or the segment's end. All lines before `low` were received earlier, and all lines from
   * `high` on at that time or later, except lines that are out of order, by at most MAX_DISORDER_MS.
   *
   * Each step guesses a position from the times at both ends, because uploads mostly arrive at an even rate. Every
   * third guess is the middle, so that few steps are enough at an uneven rate, too.
   */
  async seek(receivedAt: number, span: SegmentSpan): Promise<{ low: number; high: number }> {
    let low = { position: 0, time: span.first };
    let high = { position: this.length, time: span.last + 1 };
    let bound = this.length;
    for (let step = 1; high.position - low.position > NEAR_BYTES; step++) {
      const expected = (receivedAt - low.time) / (high.time - low.time);
      const share = step % 3 === 0 || Number.isNaN(expected) ? 0.5 : expected;
      const room = high.position - low.position - NEAR_BYTES / 2;
      const guess = low.position + Math.floor(Math.min(Math.max(share * room - NEAR_BYTES / 2, NEAR_BYTES / 4), room));
      const lines = await this.linesNear(guess);
      if ((lines[0]?.begin ?? high.position) >= high.position) break;
      for (const line of lines) {
        if (line.begin < low.position || line.end > high.position) continue;
        const head = await headOf(line.bytes);
        const time = head?.receivedAt ?? receivedAt;
        if (time < receivedAt) low = { position: line.end, time };
        else high = { position: line.begin, time };
        // A line that isn't valid sets no bound, because it says nothing about the lines behind it.
        if (head && time >= receivedAt) bound = line.begin;
      }
    }
    return { low: low.position, high: bound };
  }

  /**
   * Reads the last lines before `end`, which must be the beginning of a line or the segment's end.
   *
   * @param chunkBytes about how many bytes to read; more if the last line is longer.
   * @param buffer where to read the bytes of the lines, which are valid until it is used again.
   * @param wanted if given, most lines of other customers are left out, but never the first line of the chunk.
   */
  async linesBefore(end: number, chunkBytes = CHUNK_BYTES, buffer = new ChunkBuffer(), wanted?: CustomerLines): Promise<SegmentChunk> {
    let from = end;
    for (let size = chunkBytes; size <= CHUNK_BYTES; size *= 2) {
      const chunk = await buffer.readBefore(this.file, end, size);
      const { bytes } = chunk;
      ({ from } = chunk);
      const begin = from === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
      // Without a newline before its last byte, the chunk is only the end of a line.
      if (from > 0 && (begin === 0 || begin === bytes.length)) continue;
      if (wanted && size === CHUNK_BYTES) buffer.readAhead(this.file, from + begin);
      const whole = bytes.subarray(begin);
      const isSkipped = wanted && ((at: number) => at > 0 && wanted.leavesOut(whole, at));
      return { begin: from + begin, lines: [...rawLines(whole, from + begin, isSkipped)] };
    }
    const begin = (await this.newlineBefore(from)) + 1;
    return { begin, lines: [...rawLines(await this.readLong(begin, end), begin)] };
  }

  /**
   * Reads the first lines that begin at `position` or after it. Resolves to an empty list if there are none.
   *
   * @param chunkBytes how many bytes to read first; more, if no line ends within them.
   * @param mostBytes if no line ends within this many bytes, resolves to an empty list.
   */
  async linesFrom(position: number, chunkBytes: number, mostBytes: number): Promise<readonly RawLine[]> {
    const from = Math.max(0, position - 1);
    for (let size = chunkBytes; ; size *= 2) {
      const to = Math.min(this.length, from + size);
      const bytes = to > from ? await this.read(from, to) : Buffer.alloc(0);
      const begin = position === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
      const lines = position === 0 || begin > 0 ? [...rawLines(bytes.subarray(begin), from + begin)] : [];
      if (lines.length > 0 || to >= this.length || size >= mostBytes) return lines;
    }
  }

  async lineFrom(position: number): Promise<RawLine | undefined> {
    const from = Math.max(0, position - 1);
    for (let size = PROBE_BYTES; size <= CHUNK_BYTES; size *= 4) {
      const to = Math.min(this.length, from + size);
      const bytes = await this.read(from, to);
      const begin = position === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
      const [line] = position === 0 || begin > 0 ? rawLines(bytes.subarray(begin), from + begin) : [];
      if (line) return line;
      if (to === this.length) return undefined;
    }
    const begin = position === 0 ? 0 : ((await this.newlineFrom(from)) ?? this.length) + 1;
    const newline = await this.newlineFrom(begin);
    return newline === undefined ? undefined : { begin, end: newline + 1, bytes: await this.readLong(begin, newline) };
  }

  /** The first line from `position` (not 0) on, and the last one that ends within NEAR_BYTES behind it, if any. */
  private async linesNear(position: number): Promise<readonly RawLine[]> {
    const from = position - 1;
    const bytes = await this.read(from, Math.min(this.length, from + NEAR_BYTES));
    const begin = bytes.indexOf(NEWLINE) + 1;
    const end = bytes.lastIndexOf(NEWLINE);
    const [first] = begin > 0 ? rawLines(bytes.subarray(begin), from + begin) : [];
    if (!first) {
      const line = await this.lineFrom(position);
      return line ? [line] : [];
    }
    const lastBegin = bytes.lastIndexOf(NEWLINE, end - 1) + 1;
    return [first, { begin: from + lastBegin, end: from + end + 1, bytes: bytes.subarray(lastBegin, end) }];
  }

  private async newlineFrom(position: number): Promise<number | undefined> {
    for (let at = position; at < this.length; at += CHUNK_BYTES) {
      const found = (await this.read(at, Math.min(this.length, at + CHUNK_BYTES))).indexOf(NEWLINE);
      if (found >= 0) return at + found;
    }
    return undefined;
  }

  async newlineBefore(position: number): Promise<number> {
    for (let end = position; end > 0; end -= CHUNK_BYTES) {
      const from = Math.max(0, end - CHUNK_BYTES);
      const found = (await this.read(from, end)).lastIndexOf(NEWLINE);
      if (found >= 0) return from + found;
    }
    return -1;
  }

  private async readLong(from: number, to: number): Promise<Buffer> {
    this.giveBack();
    await this.memory.take(to - from);
    this.heldBytes = to - from;
    return this.read(from, to);
  }

  private giveBack(): void {
    this.memory.giveBack(this.heldBytes);
    this.heldBytes = 0;
  }

  async read(from: number, to: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(to - from);
    return bytes.subarray(0, await this.file.read(bytes, from));
  }

  close(): Promise<void> {
    this.giveBack();
    return closeQuietly(this.file);
  }
}
