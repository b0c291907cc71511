import { MOST_CHUNKS, readContent } from '../../../application/content.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { DiskFile } from './disk.js';

/** How much may be gathered for one file while a write runs, in bytes. The next write takes all of it. */
const MOST_GATHERED_BYTES = 1024 * 1024;
/**
 * How much all files of the process may gather, in bytes. Beyond that, each gathers only FEW_BYTES. So a disk that
 * stalls, with hundreds of uploads, costs little more memory than their connections.
 */
const MOST_GATHERED_BY_ALL_BYTES = 32 * 1024 * 1024;
const FEW_BYTES = 16 * 1024;
/**
 * A sync starts each time this many bytes were written. The disk then works while the rest arrives, and little is left
 * to sync at the end.
 */
const SYNC_EVERY_BYTES = 64 * 1024 * 1024;

/**
 * Writes bytes to a new file as they arrive. The bytes are durable only after the file's `sync`.
 *
 * @throws ServiceError `storage-failure`; errors of `bytes`, unchanged. No write or sync is in flight any more then.
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
 * Closes a file. Ignores errors, because they lose nothing: the bytes of the file are synced, no longer needed, or were
 * only read. Idempotent.
 */
export const closeQuietly = (file: DiskFile): Promise<void> => file.close().catch(() => undefined);

/**
 * Writes to a file from its beginning. Chunks that arrive during a write are written together afterwards, so that few
 * writes are needed.
 */
class GatheringWriter {
  /** How much all writers of the process hold, gathered or being written, in bytes. */
  private static heldByAll = 0;

  private gathered: Uint8Array[] = [];
  private gatheredBytes = 0;
  private written = 0;
  private synced = 0;
  /** The write in flight; undefined if there is none. After a failed write, the rejected promise stays. */
  private writing: Promise<void> | undefined;
  private syncing: Promise<void> | undefined;

  constructor(private readonly file: DiskFile) {}

  /**
   * Adds a chunk. Returns undefined if there is room for more chunks. Otherwise returns a promise that resolves when
   * there is room, and rejects if a write failed.
   */
  add(chunk: Uint8Array): Promise<void> | undefined {
    this.gathered.push(chunk);
    this.gatheredBytes += chunk.length;
    GatheringWriter.heldByAll += chunk.length;
    if (!this.writing) this.begin();
    const most = GatheringWriter.heldByAll > MOST_GATHERED_BY_ALL_BYTES ? FEW_BYTES : MOST_GATHERED_BYTES;
    return this.gatheredBytes >= most || this.gathered.length >= MOST_CHUNKS ? this.writing : undefined;
  }

  /** Resolves when everything is written. */
  async finish(): Promise<void> {
    while (this.writing) await this.writing;
    await this.syncing;
  }

  /** Drops what is gathered. Resolves when no write or sync is in flight any more, even if they failed. */
  async abandon(): Promise<void> {
    GatheringWriter.heldByAll -= this.gatheredBytes;
    this.gathered = [];
    this.gatheredBytes = 0;
    await Promise.allSettled([this.writing]);
    await Promise.allSettled([this.syncing]);
  }

  private begin(): void {
    const writing = this.writeGathered().then(() => {
      this.writing = undefined;
      if (this.gathered.length > 0) this.begin();
    });
    // A later `add` or `finish` reports the error.
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
      GatheringWriter.heldByAll -= gatheredBytes;
    }
    this.written += gatheredBytes;
    if (this.written - this.synced < SYNC_EVERY_BYTES) return;
    await this.syncing;
    this.synced = this.written;
    this.syncing = this.file.sync().catch(storageFailure('A staged file could not be synced.'));
    this.syncing.catch(() => undefined);
  }
}
