import { readContent } from '../../../application/content-digest.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { DiskFile } from './disk.js';

/** What is gathered at most while a write runs, and goes to the disk with the next. */
const MOST_GATHERED_BYTES = 1024 * 1024;
/** Chunks that are held in memory at most: a tiny one takes far more of it than its length. */
const MOST_CHUNKS = 1024;
/** A sync begins behind so many bytes: the disk writes while the rest comes in, and so little is left at the end. */
const SYNC_EVERY_BYTES = 64 * 1024 * 1024;

/**
 * Writes bytes to a new file as they come. They are durable after the file's `sync` only.
 *
 * @throws ServiceError `storage-failure`; what `bytes` throws, unchanged. Nothing is written any more then.
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

/** Its bytes are synced, or the upload fails for another reason: how closing ends changes nothing. Idempotent. */
export const closeQuietly = (file: DiskFile): Promise<void> => file.close().catch(() => undefined);

/** Bytes, of which the beginning has come in. */
export interface Head {
  readonly chunks: readonly Uint8Array[];
  /** What follows; undefined when nothing does. */
  readonly rest: AsyncIterator<Uint8Array> | undefined;
}

/** Reads until it has all of the bytes, or more than some, or very many chunks; throws what `bytes` throws. */
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

/** All of the bytes; throws what they throw. Whoever stops early ends `rest`. */
export async function* behindHead({ chunks, rest }: Head): AsyncGenerator<Uint8Array> {
  yield* chunks;
  for (let next = await rest?.next(); next && !next.done; next = await rest?.next()) yield next.value;
}

/** Writes to a file from its beginning: what comes while a write runs goes with the next, so that few are needed. */
class GatheringWriter {
  private gathered: Uint8Array[] = [];
  private gatheredBytes = 0;
  private written = 0;
  private synced = 0;
  /** Stays, rejected, when one failed. */
  private writing: Promise<void> | undefined;
  private syncing: Promise<void> | undefined;

  constructor(private readonly file: DiskFile) {}

  /** What it returns resolves when there is room for more, and rejects when a write failed. */
  add(chunk: Uint8Array): Promise<void> | undefined {
    this.gathered.push(chunk);
    this.gatheredBytes += chunk.length;
    if (!this.writing) this.begin();
    const isFull = this.gatheredBytes >= MOST_GATHERED_BYTES || this.gathered.length >= MOST_CHUNKS;
    return isFull ? this.writing : undefined;
  }

  /** Resolves when all is written. */
  async finish(): Promise<void> {
    while (this.writing) await this.writing;
    await this.syncing;
  }

  /** Resolves when nothing is under way any more, however that ended. */
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
    // Whoever adds more, or finishes, gets to know.
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
