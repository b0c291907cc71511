import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../../../../../common/error-code.js';
import { LineSplitter, type SegmentLine } from '../../../../application/store-verification/line-splitter.js';
import type { OnBytes } from '../../../../application/store-verification/store-view.js';
import { MAX_BATCH_BYTES } from '../index-log.js';
import { READ_ONLY } from './content-check.js';
import type { WorkInProgress } from './work-in-progress.js';

const CHUNK_BYTES = 64 * 1024;

/**
 * Reads the lines that a segment (a file of index lines) has now. An unterminated end is yielded last, with `isTorn`.
 * It also has `isRepairable` if a service is still writing to the segment, or the next boot will repair it.
 *
 * @throws an error of the file system, but none for a missing segment, which counts as empty.
 */
export async function* segmentLines(root: string, segment: string, work: WorkInProgress, onBytes: OnBytes): AsyncGenerator<SegmentLine> {
  const file = await open(join(root, segment), READ_ONLY).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (!file) return;
  try {
    yield* new LineReader(file, segment, work, onBytes).lines();
  } finally {
    await file.close();
  }
}

class LineReader {
  private readonly splitter = new LineSplitter();

  constructor(
    private readonly file: FileHandle,
    private readonly segment: string,
    private readonly work: WorkInProgress,
    private readonly onBytes: OnBytes,
  ) {}

  async *lines(): AsyncGenerator<SegmentLine> {
    const { size } = await this.file.stat();
    yield* this.linesUpTo(size);
    if (this.splitter.restLength === 0) return;
    // Without a marker in `pending/`, reads on: the rest of the line is in the file by now, or will never be written.
    const isRepairable = await this.work.isOpen(this.segment);
    if (!isRepairable) {
      yield* this.linesUpTo((await this.file.stat()).size);
      if (this.splitter.restLength === 0) return;
    }
    const { length: end, restLength } = this.splitter;
    yield { segment: this.segment, offset: end - restLength, end, value: undefined, isTorn: true, isRepairable };
  }

  private async *linesUpTo(limit: number): AsyncGenerator<SegmentLine> {
    const { segment, splitter } = this;
    const chunk = Buffer.allocUnsafe(Math.max(0, Math.min(CHUNK_BYTES, limit - splitter.length)));
    while (splitter.length < limit) {
      const { length: from } = splitter;
      const { bytesRead } = await this.file.read(chunk, 0, Math.min(chunk.length, limit - from), from);
      if (bytesRead === 0) return;
      this.onBytes(bytesRead);
      for (const { offset, end, value, hasNul } of splitter.add(chunk.subarray(0, bytesRead))) {
        // After a power cut, blocks of the last write (at most MAX_BATCH_BYTES, or a single line) may read as zeros. If
        // the segment has a marker in `pending/`, the next boot cuts off all from the first damaged line on.
        yield { segment, offset, end, value, isTorn: false, isRepairable: hasNul && end > limit - MAX_BATCH_BYTES };
      }
    }
  }
}
