import { type HeldMemory, MemoryBudget } from '../../../../../common/memory-budget.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import { closeQuietly, type DiskFile } from '../disk.js';

/**
 * The smallest and the largest number of bytes that are read at once, except at the end. The first reads are small,
 * because the client may be slow, and each connection holds that much memory meanwhile. For a fast client, the reads
 * grow.
 */
const MIN_READ_BYTES = 16 * 1024;
const MAX_READ_BYTES = 1024 * 1024;
/**
 * If a client takes a chunk within this time, in milliseconds, further chunks are usually twice as long. If the client
 * takes longer, further chunks are half as long, but at least MIN_READ_BYTES.
 */
const FAST_MS = 20;
/**
 * Chunks don't get longer for the first bytes of a download, because a slow client seems fast then: the kernel buffers
 * some MiB for it.
 */
const KERNEL_BYTES = 4 * 1024 * 1024;
/** The memory for chunks longer than MIN_READ_BYTES and for chunks that are read ahead, of all downloads together. */
const downloadMemory = new MemoryBudget(32 * 1024 * 1024);

/**
 * Reads the bytes of a file from one position up to another. While a fast client takes a chunk, the next chunk is
 * already being read, if there is memory for it. Closes the file at the end, after an error, and when the caller stops.
 */
export class FileBytes implements AsyncIterableIterator<Uint8Array, undefined, Uint8Array | undefined> {
  /**
   * The memory that this download holds: twice `chunkBytes`, for the chunk that the client takes and for the next one;
   * none while `chunkBytes` is MIN_READ_BYTES.
   */
  private readonly memory: HeldMemory = downloadMemory.hold('download');
  private chunkBytes = MIN_READ_BYTES;
  /** The position up to which chunks don't get longer. */
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
   * @param used an earlier chunk that the caller no longer needs. Its memory may then be used again, which is much
   *   faster than allocating memory for each chunk.
   * @throws ServiceError `storage-failure`, also if the file is shorter than its line says. The file is then closed.
   */
  async next(used?: Uint8Array): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.at >= this.end) return this.return();
    const isFast = this.handedOverAt !== undefined && this.at >= this.kernelEnd && performance.now() - this.handedOverAt < FAST_MS;
    try {
      const chunk = await (this.ahead ?? this.read(used));
      this.at += chunk.length;
      const mayReadAhead = isFast ? this.speedUp() : this.slowDown();
      this.ahead = mayReadAhead && this.at < this.end ? this.read(this.ahead && used) : undefined;
      // The next call of `next` reports a failed read. Without this handler, the failure would count as unhandled until
      // then.
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

  /** Makes the next chunks longer if there is memory for them. Returns whether there is memory to read one ahead. */
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
