import { type HeldMemory, processMemory } from '../../../../common/memory-budget.js';
import { MAX_CHUNKS } from '../../../../common/stream-head.js';
import { readContent } from '../../../application/content.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { DiskFile } from './disk.js';

/**
 * Once the chunks that were gathered for one file during a write have at least this many bytes, the next chunk waits
 * until that write has ended. All gathered chunks are then written together.
 */
const MAX_GATHERED_BYTES = 1024 * 1024;
/**
 * Takes the place of MAX_GATHERED_BYTES while the memory budget of the process is used up. Hundreds of uploads to a
 * disk that stalls then need little more memory than their connections.
 */
const MAX_GATHERED_OVER_BUDGET_BYTES = 16 * 1024;
/**
 * A sync of the file starts each time this many bytes were written. The disk then works while the rest of the file
 * arrives, and little is left to sync at the end.
 */
const SYNC_EVERY_BYTES = 64 * 1024 * 1024;

/**
 * Writes bytes to a new file as they arrive. Resolves to their size and sha-256 when all are written. They aren't all
 * durable until the caller syncs the file.
 *
 * @throws ServiceError `storage-failure`; errors of `bytes`, unchanged. After an error, no write or sync is in flight
 *   any more.
 */
export async function writeStagedFile(file: DiskFile, bytes: AsyncIterable<Uint8Array>): Promise<StoredContent> {
  const writer = new GatheringWriter(file);
  try {
    const content = await readContent(bytes, (chunk) => writer.add(chunk));
    await writer.finish();
    return content;
  } catch (error) {
    await writer.abandon();
    throw error;
  }
}

/**
 * Writes chunks to a file from its beginning. Chunks that arrive during a write are written together afterwards, so
 * that few writes are needed.
 */
class GatheringWriter {
  /**
   * The memory that this file has taken from the process's budget for the chunks that are gathered or being written. It
   * is less than their length if the budget was used up when some of them came.
   */
  private readonly memory: HeldMemory = processMemory.hold('staged');
  private gathered: Uint8Array[] = [];
  private gatheredBytes = 0;
  private written = 0;
  private synced = 0;
  /**
   * Settles when the write in flight has ended; undefined if there is none. After a failed write, the rejected promise
   * stays.
   */
  private writing: Promise<void> | undefined;
  private syncing: Promise<void> | undefined;

  constructor(private readonly file: DiskFile) {}

  /**
   * Adds a chunk. Returns undefined if the next chunk can be added at once. Otherwise returns a promise that resolves
   * when the next chunk can be added, and rejects if a write or a sync failed.
   */
  add(chunk: Uint8Array): Promise<void> | undefined {
    this.gathered.push(chunk);
    this.gatheredBytes += chunk.length;
    const limit = this.memory.tryGrow(chunk.length) ? MAX_GATHERED_BYTES : MAX_GATHERED_OVER_BUDGET_BYTES;
    if (!this.writing) this.begin();
    return this.gatheredBytes >= limit || this.gathered.length >= MAX_CHUNKS ? this.writing : undefined;
  }

  /** Resolves when all chunks are written and no sync is in flight any more. Rejects if a write or a sync failed. */
  async finish(): Promise<void> {
    while (this.writing) await this.writing;
    await this.syncing;
  }

  /**
   * Drops the chunks that aren't written yet. Resolves when no write and no sync is in flight any more, even if one
   * failed.
   */
  async abandon(): Promise<void> {
    this.gathered = [];
    this.gatheredBytes = 0;
    await Promise.allSettled([this.writing]);
    this.memory.release();
    await Promise.allSettled([this.syncing]);
  }

  private begin(): void {
    const writing = this.writeGathered().then(() => {
      this.writing = undefined;
      if (this.gathered.length > 0) this.begin();
    });
    // A later `add` or `finish` reports the failure.
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
    if (this.written - this.synced < SYNC_EVERY_BYTES) return;
    await this.syncing;
    this.synced = this.written;
    this.syncing = this.file.sync().catch(storageFailure('A staged file could not be synced.'));
    this.syncing.catch(() => undefined);
  }
}
