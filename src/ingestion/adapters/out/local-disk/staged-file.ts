import { readContent } from '../../../application/content-digest.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { DiskFile } from './disk.js';

/** How much may be gathered while a write runs, in bytes. The next write takes all of it. */
const MOST_GATHERED_BYTES = 1024 * 1024;
/** How many chunks may be held in memory. A tiny chunk takes far more memory than its length. */
const MOST_CHUNKS = 1024;
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

/** The bytes of a file, of which the first chunks have been read into memory. */
export interface Head {
  readonly chunks: readonly Uint8Array[];
  /** The bytes after the chunks; undefined if there are none. */
  readonly rest: AsyncIterator<Uint8Array> | undefined;
}

/** Reads until it has all of the bytes, more than `most` bytes, or MOST_CHUNKS chunks. Throws the errors of `bytes`. */
export async function readHead(bytes: AsyncIterable<Uint8Array>, most: number): Promise<Head> {
  const rest = bytes[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  for (let length = 0; length <= most && chunks.length < MOST_CHUNKS; ) {
    const next = await rest.next();
    if (next.done) return { chunks, rest: undefined };
    chunks.push(next.value);
    length += next.value.length;
  }
  return { chunks, rest };
}

/**
 * Yields the chunks of a head, and then the rest of the bytes. Throws the errors of the rest. A caller that stops early
 * must end `rest` itself.
 */
export async function* behindHead({ chunks, rest }: Head): AsyncGenerator<Uint8Array> {
  yield* chunks;
  for (let next = await rest?.next(); next && !next.done; next = await rest?.next()) yield next.value;
}

/**
 * Writes to a file from its beginning. Chunks that arrive during a write are written together afterwards, so that few
 * writes are needed.
 */
class GatheringWriter {
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
    if (!this.writing) this.begin();
    const isFull = this.gatheredBytes >= MOST_GATHERED_BYTES || this.gathered.length >= MOST_CHUNKS;
    return isFull ? this.writing : undefined;
  }

  /** Resolves when everything is written. */
  async finish(): Promise<void> {
    while (this.writing) await this.writing;
    await this.syncing;
  }

  /** Drops what is gathered. Resolves when no write or sync is in flight any more, even if they failed. */
  async abandon(): Promise<void> {
    this.gathered = [];
    await Promise.allSettled([this.writing]);
    await Promise.allSettled([this.syncing]);
  }

  private begin(): void {
    const writing = this.writeGathered().then(() => {
      this.writing = undefined;
      if (this.gathered.length > 0) this.begin();
    }, storageFailure('A staged file could not be written.'));
    // A later `add` or `finish` reports the error.
    writing.catch(() => undefined);
    this.writing = writing;
  }

  private async writeGathered(): Promise<void> {
    const { gathered, gatheredBytes } = this;
    this.gathered = [];
    this.gatheredBytes = 0;
    await this.file.write(gathered, this.written);
    this.written += gatheredBytes;
    if (this.written - this.synced < SYNC_EVERY_BYTES) return;
    await this.syncing;
    this.synced = this.written;
    this.syncing = this.file.sync().catch(storageFailure('A staged file could not be synced.'));
    this.syncing.catch(() => undefined);
  }
}
