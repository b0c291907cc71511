import { type HeldMemory, MemoryBudget } from '../../../../../common/memory-budget.js';
import { MIB } from '../../../../../common/sizes.js';
import type { DiskFile } from '../disk.js';

const AHEAD_BYTES = 512 * 1024;
/** Memory for chunks that are read ahead, of all buffers together. */
const aheadMemory = new MemoryBudget(16 * MIB);

interface ChunkAhead {
  readonly file: DiskFile;
  readonly end: number;
  readonly chunk: Promise<Chunk>;
}

export interface Chunk {
  /** The offset of the bytes in their file. */
  readonly from: number;
  readonly bytes: Buffer;
}

/**
 * Memory for the bytes that are read for one chunk of a segment, and then for the next. With a buffer for each chunk, a
 * page of one customer spends more time in the garbage collector than in reading.
 */
export class ChunkBuffer {
  private own = Buffer.alloc(0);
  /** For chunks that are read ahead: one has the chunk in use, and the other gets the next. Empty without memory. */
  private pair: Buffer[] = [];
  private readonly memory: HeldMemory = aheadMemory.hold('answer');
  private ahead: ChunkAhead | undefined;

  /**
   * Reads `length` bytes before `end`, or fewer at the file's beginning. If the chunk before `end` was read ahead,
   * resolves to that one, which has another length. The bytes are valid until the next call.
   */
  async readBefore(file: DiskFile, end: number, length: number): Promise<Chunk> {
    const { ahead } = this;
    if (ahead?.file === file && ahead.end === end) {
      this.ahead = undefined;
      return ahead.chunk;
    }
    if (length > this.own.length) this.own = Buffer.allocUnsafeSlow(length);
    return chunkBefore(file, end, this.own.subarray(0, length));
  }

  /**
   * Begins to read the chunk before `end`, for a later call of `readBefore`. Does nothing if memory is short, or if a
   * chunk that was read ahead is still to be used, as when the chunks of two segments are read in turn.
   */
  readAhead(file: DiskFile, end: number): void {
    if (end === 0 || this.ahead || !this.hasPair()) return;
    const [memory] = this.pair.reverse() as [Buffer, Buffer];
    const chunk = chunkBefore(file, end, memory);
    // `readBefore` reports a failure. Until then, it must not count as unhandled.
    chunk.catch(() => undefined);
    this.ahead = { file, end, chunk };
  }

  /** Waits for a read in progress, and gives back the memory for reading ahead. The buffer may be used again. */
  async close(): Promise<void> {
    await this.ahead?.chunk.catch(() => undefined);
    this.ahead = undefined;
    this.pair = [];
    this.memory.release();
  }

  private hasPair(): boolean {
    if (this.pair.length === 0 && this.memory.tryGrow(2 * AHEAD_BYTES)) {
      this.pair = [Buffer.allocUnsafeSlow(AHEAD_BYTES), Buffer.allocUnsafeSlow(AHEAD_BYTES)];
    }
    return this.pair.length > 0;
  }
}

async function chunkBefore(file: DiskFile, end: number, memory: Buffer): Promise<Chunk> {
  const from = Math.max(0, end - memory.length);
  const bytes = memory.subarray(0, end - from);
  return { from, bytes: bytes.subarray(0, await file.read(bytes, from)) };
}
