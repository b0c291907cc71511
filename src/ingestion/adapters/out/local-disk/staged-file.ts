import { type HeldMemory, processMemory } from '../../../../common/memory-budget.js';
import { MAX_CHUNKS } from '../../../../common/stream-head.js';
import { readContent } from '../../../application/content.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { DiskFile } from './disk.js';

const MAX_GATHERED_BYTES = 1024 * 1024;
/**
 * How many bytes an upload gathers while the memory budget of the process is used up. Hundreds of uploads to a disk
 * that stalls then need little more memory than their connections.
 */
const MAX_GATHERED_OVER_BUDGET_BYTES = 16 * 1024;
/** Each time a file has grown by this much, it is synced, so that little is left to sync at the end. */
const SYNC_EVERY_BYTES = 64 * 1024 * 1024;

/**
 * Writes bytes to a new file as they arrive. Not all are durable until the caller syncs the file.
 *
 * @throws ServiceError `storage-failure`; errors of `bytes`, unchanged. No write or sync is then in flight any more.
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

class GatheringWriter {
  private readonly memory: HeldMemory = processMemory.hold('staged');
  private gathered: Uint8Array[] = [];
  private gatheredBytes = 0;
  private written = 0;
  private synced = 0;
  /** The write in progress. After a failed write, its rejected promise stays. */
  private writing: Promise<void> | undefined;
  private syncing: Promise<void> | undefined;

  constructor(private readonly file: DiskFile) {}

  add(chunk: Uint8Array): Promise<void> | undefined {
    this.gathered.push(chunk);
    this.gatheredBytes += chunk.length;
    const limit = this.memory.tryGrow(chunk.length) ? MAX_GATHERED_BYTES : MAX_GATHERED_OVER_BUDGET_BYTES;
    if (!this.writing) this.begin();
    return this.gatheredBytes >= limit || this.gathered.length >= MAX_CHUNKS ? this.writing : undefined;
  }

  async finish(): Promise<void> {
    while (this.writing) await this.writing;
    await this.syncing;
  }

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
    if (this.written - this.synced < SYNC_EVERY_BYTES) return;
    await this.syncing;
    this.synced = this.written;
    this.syncing = this.file.sync().catch(storageFailure('A staged file could not be synced.'));
    this.syncing.catch(() => undefined);
  }
}
