import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../disk-error.js';
import { MAX_BATCH_BYTES } from '../index-log.js';
import { NEWLINE } from '../index-lines.js';
import { READ_ONLY } from './content-check.js';
import { LineText, parseJson } from './line-text.js';
import type { UnderWay } from './under-way.js';

const CHUNK_BYTES = 64 * 1024;

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
  /** Whether the next boot cuts it off, if the segment's marker is still there. */
  readonly isMendable: boolean;
}

/**
 * Reads the lines that a segment has now, with a bounded memory however long they are. An unterminated end comes last,
 * and only if whoever wrote the segment is done with it or its marker says that it may be torn.
 *
 * @throws what the file system throws, but for a segment that is gone: it has no lines.
 */
export async function* segmentLines(
  root: string,
  segment: string,
  underWay: UnderWay,
  onBytes: (count: number) => void,
): AsyncGenerator<SegmentLine> {
  const file = await open(join(root, segment), READ_ONLY).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (!file) return;
  try {
    yield* new SegmentReader(file, segment, underWay, onBytes).lines();
  } finally {
    await file.close();
  }
}

class SegmentReader {
  private position = 0;
  private rest = new LineText();

  constructor(
    private readonly file: FileHandle,
    private readonly segment: string,
    private readonly underWay: UnderWay,
    private readonly onBytes: (count: number) => void,
  ) {}

  async *lines(): AsyncGenerator<SegmentLine> {
    const { size } = await this.file.stat();
    yield* this.linesUpTo(size);
    if (this.rest.length === 0) return;
    // The marker stands until all is written: without one, the rest of the line is there, or never comes.
    const isMendable = await this.underWay.isOpen(this.segment);
    if (!isMendable) {
      yield* this.linesUpTo((await this.file.stat()).size);
      if (this.rest.length === 0) return;
    }
    const { position: end, segment } = this;
    yield { segment, offset: end - this.rest.length, end, value: undefined, isTorn: true, isMendable };
  }

  private async *linesUpTo(limit: number): AsyncGenerator<SegmentLine> {
    const chunk = Buffer.allocUnsafe(Math.max(0, Math.min(CHUNK_BYTES, limit - this.position)));
    while (this.position < limit) {
      const from = this.position;
      const { bytesRead } = await this.file.read(chunk, 0, Math.min(chunk.length, limit - from), from);
      if (bytesRead === 0) return;
      const bytes = chunk.subarray(0, bytesRead);
      this.onBytes(bytesRead);
      let begin = 0;
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, begin)) {
        const line = this.line(bytes.subarray(begin, end), from + end + 1, limit);
        begin = end + 1;
        yield line;
      }
      if (begin < bytes.length) this.rest.add(bytes.subarray(begin));
      this.position = from + bytesRead;
    }
  }

  private line(bytes: Buffer, end: number, size: number): SegmentLine {
    const { segment, rest } = this;
    const offset = end - 1 - bytes.length - rest.length;
    let value: unknown;
    let hasNul: boolean;
    if (rest.length === 0) {
      value = parseJson(bytes);
      hasNul = value === undefined && bytes.includes(0);
    } else {
      rest.add(bytes);
      value = rest.parse();
      hasNul = rest.hasNul;
      this.rest = new LineText();
    }
    // Blocks of the last batch that never came to the disk read as zeros: the next boot cuts the segment there.
    return { segment, offset, end, value, isTorn: false, isMendable: hasNul && end > size - MAX_BATCH_BYTES };
  }
}
