import { MAX_EVENTS_BYTES } from '../../../../application/ports/event-outbox.port.js';
import { NEWLINE } from '../../../../application/raw-lines.js';
import type { Bucket } from '../bucket.js';
import { type Line, linesIn, readPart, SegmentGoneError } from '../stored-uploads/line-reading.js';
import type { BatchDraft } from './batch.js';
import type { Cursor, Part } from './cursor.js';

const BLOCK_BYTES = 512 * 1024;
const MAX_REMEMBERED = 10_000;

export interface Reading {
  readonly lines: readonly Line[];
  readonly isOver: boolean;
  readonly isGone: boolean;
}

const GONE: Reading = { lines: [], isOver: true, isGone: true };

/** Those that are 1, 2, 4, 8, … places before the last, in their order. */
const thinned = (ids: readonly string[]): string[] => ids.filter((_, index) => Number.isInteger(Math.log2(ids.length - 1 - index)));

const idsIn = ({ upload_id, earlier = [] }: Part): string[] => [...earlier, upload_id];

/** Reads the index lines of segments that have unconfirmed events, as many lines at a time as fit into a batch. */
export class UnconfirmedLineReader {
  /**
   * The ids of the last confirmed uploads in segments that also have unconfirmed ones, by the segment's key. They find
   * the place again after a removal of uploads has moved lines. The cursor has a few of them, for the next process.
   */
  private readonly remembered = new Map<string, string[]>();

  constructor(
    private readonly bucket: Bucket,
    private readonly cursor: Cursor,
  ) {}

  async read(key: string, size: number, room: number): Promise<Reading> {
    const lines: Line[] = [];
    let bytes = 0;
    try {
      for await (const line of this.unconfirmedLines(key, size)) {
        bytes += line.end - line.begin;
        if (lines.length === room || (lines.length > 0 && bytes > MAX_EVENTS_BYTES)) return { lines, isOver: false, isGone: false };
        lines.push(line);
      }
      return { lines, isOver: true, isGone: false };
    } catch (error) {
      if (error instanceof SegmentGoneError) return GONE;
      throw error;
    }
  }

  /**
   * Adds the events of lines to a batch, except those confirmed elsewhere. Returns false if lines are left for a later
   * batch. Otherwise, `onOver` is called once the batch is confirmed.
   */
  add(batch: BatchDraft, key: string, { lines, isOver }: Reading, onOver: () => void, isConfirmedElsewhere = (_: string): boolean => false): boolean {
    const taken: Line[] = [];
    for (const line of lines) {
      if (!isConfirmedElsewhere(line.upload.uploadId) && !batch.add({ type: 'stored', upload: line.upload }, line.end - line.begin)) break;
      taken.push(line);
    }
    const isWhole = isOver && taken.length === lines.length;
    if (isWhole) batch.onceConfirmed(() => { this.forget(key); onOver(); });
    else if (taken.length > 0) batch.onceConfirmed(() => { this.remember(key, taken); });
    return isWhole;
  }

  private remember(key: string, taken: readonly Line[]): void {
    const last = taken.at(-1);
    if (!last) return;
    const ids = [...this.confirmedIn(key), ...taken.map(({ upload }) => upload.uploadId)].slice(-MAX_REMEMBERED);
    this.cursor.parts.set(key, { offset: last.begin, upload_id: last.upload.uploadId, earlier: thinned(ids) });
    this.remembered.set(key, ids);
  }

  private forget(key: string): void {
    this.cursor.parts.delete(key);
    this.remembered.delete(key);
  }

  private confirmedIn(key: string): readonly string[] {
    const part = this.cursor.parts.get(key);
    return this.remembered.get(key) ?? (part ? idsIn(part) : []);
  }

  private async *unconfirmedLines(key: string, size: number): AsyncGenerator<Line> {
    const part = this.cursor.parts.get(key);
    let begin = 0;
    if (part) {
      let isFirst = true;
      for await (const line of this.linesFrom(key, part.offset, size)) {
        if (isFirst && line.upload.uploadId !== part.upload_id) break;
        if (!isFirst) yield line;
        isFirst = false;
      }
      if (!isFirst) return;
      // The remembered line isn't at its offset any more, so a removal of uploads has rewritten the segment. The
      // remaining lines keep their order, so reading goes on after the last line whose event is known to be confirmed.
      // If an earlier process confirmed it, a few events may be delivered again.
      const confirmed = new Set(this.confirmedIn(key));
      for await (const { upload, end } of this.linesFrom(key, 0, size)) if (confirmed.has(upload.uploadId)) begin = end;
    }
    yield* this.linesFrom(key, begin, size);
  }

  private async *linesFrom(key: string, offset: number, size: number): AsyncGenerator<Line> {
    let length = BLOCK_BYTES;
    for (let at = offset; at < size; ) {
      const part = await readPart(this.bucket, key, { first: at, last: at + length - 1 });
      if (!part) return;
      yield* linesIn(part.bytes, part.offset);
      if (part.offset + part.bytes.length < at + length) return;
      const whole = part.bytes.lastIndexOf(NEWLINE) + 1;
      // If a line is longer than the block, it is read again in a block four times as long.
      length = whole === 0 ? length * 4 : BLOCK_BYTES;
      at = part.offset + whole;
    }
  }
}
