import { KIB } from '../../../../../common/sizes.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import type { Bucket, ByteRange } from '../bucket.js';

/** How many downloads keep their connection to the store, however long their clients pause. Each buffers some 200 KiB. */
const MAX_IDLE_CONNECTIONS = 128;
/** How long a client may pause before its download closes its connection, if more than 128 downloads have one. */
const MAX_PAUSE_MS = 5_000;
/** The longest piece while more than 128 downloads have a connection. It stays in memory when the connection is closed. */
const SHORT_PIECE_BYTES = 16 * KIB;

/**
 * Opens an upload's file. A read that breaks off is continued as long as it makes progress, because a store may end a
 * download that its reader pauses for long. Beyond 128 downloads, one that its reader pauses for five seconds closes
 * its connection to the store by itself, and continues with another request. So slow readers hold little memory.
 *
 * @param size the length of the file in bytes, according to its line.
 * @returns undefined if the file is missing.
 * @throws ServiceError `storage-failure`, including while the file is read, and if the file turns out to have another
 *   length.
 */
export async function openFile(bucket: Bucket, path: string, range: ByteRange | undefined, size: number): Promise<AsyncIterable<Uint8Array> | undefined> {
  const bytes = new FileBytes(bucket, path, range?.first ?? 0, range?.last ?? size - 1);
  return (await bytes.connect(range).catch(failure)) ? bytes : undefined;
}

const failure = storageFailure('A file could not be read.');
let connections = 0;

/** Not a generator: one that is ended before its first piece couldn't release the connection. */
class FileBytes implements AsyncIterableIterator<Uint8Array, undefined> {
  private pieces: AsyncIterator<Uint8Array> | undefined;
  private pauseTimer: NodeJS.Timeout | undefined;
  /** The end of a piece whose beginning was handed out. */
  private rest: Uint8Array | undefined;
  private isPaused = true;
  private isEnded = false;
  private brokeAt = -1;

  /** @param position the first byte that wasn't handed out yet. */
  constructor(
    private readonly bucket: Bucket,
    private readonly path: string,
    private position: number,
    private readonly last: number,
  ) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Resolves to false if the file is missing. */
  async connect(range: ByteRange | undefined): Promise<boolean> {
    const opened = await this.bucket.open(this.path, range);
    if (!opened) return false;
    this.pieces = opened[Symbol.asyncIterator]();
    if (this.isEnded) {
      await this.pieces.return?.();
      this.pieces = undefined;
      return true;
    }
    connections += 1;
    this.pauseTimer = setInterval(() => {
      if (connections > MAX_IDLE_CONNECTIONS && this.isPaused) this.disconnect().catch(() => undefined);
    }, MAX_PAUSE_MS).unref();
    return true;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.isPaused = false;
    try {
      const piece = this.rest ?? (await this.read());
      if (!piece) return await this.return();
      // Not a Buffer: from Node 26 on, one of this length shares the memory of others.
      const value = connections > MAX_IDLE_CONNECTIONS ? new Uint8Array(piece.subarray(0, SHORT_PIECE_BYTES)) : piece;
      this.rest = value.length < piece.length ? piece.subarray(value.length) : undefined;
      this.position += value.length;
      return { done: false, value };
    } catch (error) {
      await this.return();
      return failure(error);
    } finally {
      this.isPaused = true;
      this.pauseTimer?.refresh();
    }
  }

  async return(): Promise<{ done: true; value: undefined }> {
    this.isEnded = true;
    this.position = this.last + 1;
    await this.disconnect();
    return { done: true, value: undefined };
  }

  /** Reads the next piece; undefined at the end of the file. */
  private async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const { position, last } = this;
      if (!this.pieces && position <= last && !(await this.connect({ first: position, last }))) throw new Error('The file was removed while it was read.');
      try {
        const piece = await this.pieces?.next();
        if (!piece || piece.done) {
          if (position <= last) throw new Error('The file is shorter than its line says.');
          return undefined;
        }
        if (position + piece.value.length > last + 1) {
          // Isn't read again: a request for the rest would end where the line says.
          this.brokeAt = position;
          throw new Error('The file is longer than its line says.');
        }
        return piece.value;
      } catch (error) {
        if (this.brokeAt === position || position > last) throw error;
        this.brokeAt = position;
        await this.disconnect();
      }
    }
  }

  /** Closes the connection, and drops what was read but not handed out. */
  private async disconnect(): Promise<void> {
    const { pieces } = this;
    if (!pieces) return;
    this.pieces = undefined;
    this.rest = undefined;
    clearInterval(this.pauseTimer);
    // Also forgotten, because `refresh` would start it again.
    this.pauseTimer = undefined;
    connections -= 1;
    await pieces.return?.();
  }
}
