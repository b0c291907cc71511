import { storageFailure } from '../../../../application/storage-failure.js';
import type { DiskFile } from '../disk.js';
import { closeQuietly } from '../staged-file.js';

/**
 * How many bytes of a file are read at once. The least is for slow clients, because any connection may be a slow one
 * and holds this much memory. The amount grows up to the most for fast clients.
 */
const LEAST_READ_BYTES = 64 * 1024;
const MOST_READ_BYTES = 1024 * 1024;
/**
 * A client that took what was read within this time gets twice as much next; a slower client gets half. In
 * milliseconds.
 */
const FAST_MS = 20;

/** The bytes of a part of a file. Closes the file at the end, and when the caller stops. */
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
