import { type HeldMemory, processMemory } from '../../../../common/memory-budget.js';
import { MIB } from '../../../../common/sizes.js';
import { MAX_CHUNKS } from '../../../../common/stream-head.js';
import { readContent } from '../../../application/content.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { BLOCK_BYTES, giveBackBlocks, takeBlocks } from './aligned-blocks.js';
import type { DiskFile } from './disk.js';
import type { SpaceReserve } from './space-reserve.js';

const MAX_GATHERED_BYTES = MIB;
/**
 * How many bytes an upload gathers while the memory budget of the process is used up. Hundreds of uploads to a disk
 * that stalls then need little more memory than their connections.
 */
const MAX_GATHERED_OVER_BUDGET_BYTES = 16 * 1024;
/** Each time a file has grown by this much, it is synced, so that little is left to sync at the end. */
const SYNC_EVERY_BYTES = 64 * MIB;
/** Where the blocks of a large file begin, in bytes: a multiple of BLOCK_BYTES. */
const BLOCKS_FROM = 4 * BLOCK_BYTES;

/**
 * Writes bytes to a new file as they arrive. Not all are durable until the caller syncs the file.
 *
 * @throws ServiceError `storage-failure`; errors of `bytes`, unchanged. No write or sync is then in flight any more.
 */
export async function writeStagedFile(file: DiskFile, bytes: AsyncIterable<Uint8Array>, reserve: SpaceReserve): Promise<StoredContent> {
  const writer = new StagedFileWriter(file, reserve);
  try {
    const content = await readContent(bytes, (chunk) => writer.add(chunk));
    await writer.finish();
    return content;
  } finally {
    await writer.close();
  }
}

/** Writes the beginning of a file as it arrives, and the rest of a large one in blocks, if there are unused ones. */
class StagedFileWriter {
  private readonly growth: SyncedGrowth;
  private readonly beginning: GatheringWriter;
  private rest: BlockWriter | undefined;
  private received = 0;

  constructor(
    private readonly file: DiskFile,
    reserve: SpaceReserve,
  ) {
    this.growth = new SyncedGrowth(file, reserve);
    this.beginning = new GatheringWriter(file, this.growth);
  }

  add(chunk: Uint8Array): Promise<void> | undefined {
    if (this.rest) return this.rest.add(chunk);
    const left = BLOCKS_FROM - this.received;
    this.received += chunk.length;
    const blocks = left > 0 && left <= chunk.length ? takeBlocks() : undefined;
    if (!blocks) return this.beginning.add(chunk);
    this.rest = new BlockWriter(this.file, BLOCKS_FROM, blocks, this.growth);
    return this.passBorder(this.rest, chunk, left);
  }

  private async passBorder(rest: BlockWriter, chunk: Uint8Array, left: number): Promise<void> {
    await this.beginning.add(chunk.subarray(0, left));
    // A failure of the beginning must be noticed before the rest is written.
    await this.beginning.finish();
    await rest.add(chunk.subarray(left));
  }

  async finish(): Promise<void> {
    await this.beginning.finish();
    await this.rest?.finish();
    await this.growth.finish();
  }

  /** Resolves when no write or sync is in flight any more, whether or not one has failed. */
  async close(): Promise<void> {
    await this.beginning.close();
    await this.rest?.close();
    await this.growth.close();
  }
}

/** Syncs a file that grows, each time it has grown by SYNC_EVERY_BYTES. Fails when there is no space left for uploads. */
class SyncedGrowth {
  private unsynced = 0;
  private syncing: Promise<void> | undefined;

  constructor(
    private readonly file: DiskFile,
    private readonly reserve: SpaceReserve,
  ) {}

  async add(bytes: number): Promise<void> {
    if (bytes > this.reserve.left) this.reserve.refuse();
    this.reserve.left -= bytes;
    this.unsynced += bytes;
    if (this.unsynced < SYNC_EVERY_BYTES) return;
    this.unsynced = 0;
    await this.syncing;
    this.syncing = this.file.sync().catch(storageFailure('A staged file could not be synced.'));
    this.syncing.catch(() => undefined);
  }

  async finish(): Promise<void> {
    await this.syncing;
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.syncing]);
  }
}

/** Writes what has arrived, and meanwhile gathers what arrives for the next write. */
class GatheringWriter {
  private readonly memory: HeldMemory = processMemory.hold('staged');
  private gathered: Uint8Array[] = [];
  private gatheredBytes = 0;
  private written = 0;
  /** The write in progress. After a failed write, its rejected promise stays. */
  private writing: Promise<void> | undefined;

  constructor(
    private readonly file: DiskFile,
    private readonly growth: SyncedGrowth,
  ) {}

  add(chunk: Uint8Array): Promise<void> | undefined {
    this.gathered.push(chunk);
    this.gatheredBytes += chunk.length;
    const limit = this.memory.tryGrow(chunk.length) ? MAX_GATHERED_BYTES : MAX_GATHERED_OVER_BUDGET_BYTES;
    if (!this.writing) this.begin();
    return this.gatheredBytes >= limit || this.gathered.length >= MAX_CHUNKS ? this.writing : undefined;
  }

  async finish(): Promise<void> {
    while (this.writing) await this.writing;
  }

  async close(): Promise<void> {
    this.gathered = [];
    this.gatheredBytes = 0;
    await Promise.allSettled([this.writing]);
    this.memory.release();
  }

  private begin(): void {
    const writing = this.writeGathered().then(() => {
      this.writing = undefined;
      if (this.gathered.length > 0) this.begin();
    });
    // A later `add` or `finish` reports the failure. Until then, it must not count as unhandled.
    writing.catch(() => undefined);
    this.writing = writing;
  }

  private async writeGathered(): Promise<void> {
    const { gathered, gatheredBytes } = this;
    this.gathered = [];
    this.gatheredBytes = 0;
    try {
      await this.file.write(gathered, this.written);
    } catch (error) {
      storageFailure('A staged file could not be written.')(error);
    } finally {
      this.memory.shrinkTo(this.gatheredBytes);
    }
    this.written += gatheredBytes;
    await this.growth.add(gatheredBytes);
  }
}

/** Gathers bytes in one block while it writes the others. */
class BlockWriter {
  private at = 0;
  private filledBytes = 0;
  /** The latest write of each block. */
  private readonly writes: Promise<void>[] = [];

  constructor(
    private readonly file: DiskFile,
    private position: number,
    private readonly blocks: Uint8Array[],
    private readonly growth: SyncedGrowth,
  ) {}

  add(chunk: Uint8Array): Promise<void> | undefined {
    const room = BLOCK_BYTES - this.filledBytes;
    const fitting = chunk.length > room ? chunk.subarray(0, room) : chunk;
    this.block.set(fitting, this.filledBytes);
    this.filledBytes += fitting.length;
    return this.filledBytes === BLOCK_BYTES ? this.begin(chunk.subarray(room)) : undefined;
  }

  async finish(): Promise<void> {
    await Promise.all(this.writes);
    await this.write(this.block.subarray(0, this.filledBytes));
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.writes);
    giveBackBlocks(this.blocks);
  }

  private get block(): Uint8Array {
    const block = this.blocks[this.at];
    if (!block) throw new RangeError('There is no such block.');
    return block;
  }

  private async begin(next: Uint8Array): Promise<void> {
    const writing = this.write(this.block);
    // A later call reports the failure. Until then, it must not count as unhandled.
    writing.catch(() => undefined);
    this.writes[this.at] = writing;
    this.at = (this.at + 1) % this.blocks.length;
    await this.writes[this.at];
    this.filledBytes = 0;
    await this.add(next);
  }

  private async write(bytes: Uint8Array): Promise<void> {
    const { position } = this;
    this.position += bytes.length;
    await this.file.write([bytes], position, bytes.length === BLOCK_BYTES).catch(storageFailure('A staged file could not be written.'));
    await this.growth.add(bytes.length);
  }
}
