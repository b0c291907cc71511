import { storageFailure } from '../../../../application/storage-failure.js';
import type { DiskFile } from '../disk.js';
import { closeQuietly } from '../staged-file.js';

/**
 * How many bytes of a file are read at once, at least and at most. Reads begin with the least, because each connection
 * may be slow and holds this much memory meanwhile. They grow up to the most for fast clients.
 */
const LEAST_READ_BYTES = 64 * 1024;
const MOST_READ_BYTES = 1024 * 1024;
/**
 * If a client took the last read within this time, in milliseconds, the next read is twice as long; otherwise it is
 * half as long.
 */
const FAST_MS = 20;

/**
 * Reads the bytes of a file from one position up to another. Closes the file at the end, after an error, and when the
 * caller stops.
 */
export class FileBytes implements AsyncIterableIterator<Uint8Array> {
  private readBytes = LEAST_READ_BYTES;
  private handedOverAt: number | undefined;

  constructor(
    private readonly file: DiskFile,
    private at: number,
    private readonly end: number,
  ) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.at >= this.end) return this.return();
    this.adapt();
    try {
      const chunk = Buffer.allocUnsafeSlow(Math.min(this.readBytes, this.end - this.at));
      const read = await this.file.read(chunk, this.at);
      if (read === 0) throw new Error('The file is shorter than its line says.');
      this.at += read;
      this.handedOverAt = performance.now();
      return { done: false, value: chunk.subarray(0, read) };
    } catch (error) {
      await this.return();
      return storageFailure('A file could not be read.')(error);
    }
  }

  async return(): Promise<{ done: true; value: undefined }> {
    this.at = this.end;
    await closeQuietly(this.file);
    return { done: true, value: undefined };
  }

  private adapt(): void {
    if (this.handedOverAt === undefined) return;
    const isFast = performance.now() - this.handedOverAt < FAST_MS;
    this.readBytes = isFast ? Math.min(this.readBytes * 2, MOST_READ_BYTES) : Math.max(this.readBytes / 2, LEAST_READ_BYTES);
  }
}
