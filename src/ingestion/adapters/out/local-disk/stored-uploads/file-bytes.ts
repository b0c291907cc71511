import { type HeldMemory, MemoryBudget } from '../../../../../common/memory-budget.js';
import { KIB, MIB } from '../../../../../common/sizes.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import { closeQuietly, type DiskFile } from '../disk.js';

/** The first reads are small, because the client may be slow, and each connection holds that much memory meanwhile. */
const MIN_READ_BYTES = 16 * KIB;
const MAX_READ_BYTES = MIB;
const FAST_MS = 20;
/** Chunks don't grow before this many bytes: a slow client seems fast while the kernel buffers some MiB for it. */
const KERNEL_BYTES = 4 * MIB;
/** Memory for chunks of more than 16 KiB and for chunks that are read ahead, of all downloads together. */
const downloadMemory = new MemoryBudget(32 * MIB);

/**
 * Reads the bytes of a file from one position up to another. For a fast client, reads the next chunk ahead. Closes the
 * file at the end, after an error, and when the caller stops.
 */
export class FileBytes implements AsyncIterableIterator<Uint8Array, undefined, Uint8Array | undefined> {
  private readonly memory: HeldMemory = downloadMemory.hold('download');
  private chunkBytes = MIN_READ_BYTES;
  private readonly kernelEnd: number;
  private handedOverAt: number | undefined;
  private ahead: Promise<Uint8Array> | undefined;

  constructor(
    private readonly file: DiskFile,
    private at: number,
    private readonly end: number,
  ) {
    this.kernelEnd = at + KERNEL_BYTES;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Reads the next chunk.
   *
   * @param used an earlier chunk that the caller no longer needs: reusing its memory is much faster than allocating.
   * @throws ServiceError `storage-failure`, including when the file is shorter than its line says. The file is then
   *   closed.
   */
  async next(used?: Uint8Array): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.at >= this.end) return this.return();
    const isFast = this.handedOverAt !== undefined && this.at >= this.kernelEnd && performance.now() - this.handedOverAt < FAST_MS;
    try {
      const chunk = await (this.ahead ?? this.read(used));
      this.at += chunk.length;
      const mayReadAhead = isFast ? this.speedUp() : this.slowDown();
      this.ahead = mayReadAhead && this.at < this.end ? this.read(this.ahead && used) : undefined;
      // The next call of `next` reports the failure. Until then, it must not count as unhandled.
      this.ahead?.catch(() => undefined);
      this.handedOverAt = performance.now();
      return { done: false, value: chunk };
    } catch (error) {
      await this.return();
      return storageFailure('A file could not be read.')(error);
    }
  }

  async return(): Promise<{ done: true; value: undefined }> {
    this.at = this.end;
    this.memory.release();
    await closeQuietly(this.file);
    return { done: true, value: undefined };
  }

  private speedUp(): boolean {
    const longer = Math.min(this.chunkBytes * 2, MAX_READ_BYTES);
    if (this.memory.tryGrow(2 * longer - this.memory.bytes)) this.chunkBytes = longer;
    return this.memory.bytes >= 2 * this.chunkBytes;
  }

  private slowDown(): false {
    this.chunkBytes = Math.max(this.chunkBytes / 2, MIN_READ_BYTES);
    this.memory.shrinkTo(this.chunkBytes > MIN_READ_BYTES ? 2 * this.chunkBytes : 0);
    return false;
  }

  private async read(used: Uint8Array | undefined): Promise<Uint8Array> {
    const length = Math.min(this.chunkBytes, this.end - this.at);
    const chunk = used?.length === length ? used : Buffer.allocUnsafeSlow(length);
    const count = await this.file.read(chunk, this.at);
    if (count === 0) throw new Error('The file is shorter than its line says.');
    return chunk.subarray(0, count);
  }
}
