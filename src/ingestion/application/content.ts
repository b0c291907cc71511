import { createHash, hash } from 'node:crypto';
import type { StoredContent } from './ports/file-storage.port.js';

/**
 * The most chunks of a file that may be in memory at once. A limit in bytes alone isn't enough, because a tiny chunk
 * takes far more memory than its length.
 */
export const MAX_CHUNKS = 1024;

/** Computes the size and sha-256 of bytes that are added chunk by chunk. */
export class ContentDigest {
  private readonly hash = createHash('sha256');
  private size = 0;

  add(chunk: Uint8Array): void {
    this.hash.update(chunk);
    this.size += chunk.length;
  }

  /** The size and sha-256 of all chunks that were added. Must be called only once. */
  end(): StoredContent {
    return { size: this.size, sha256: this.hash.digest('hex') };
  }
}

/**
 * Reads bytes and returns their size and sha-256. Passes each chunk to `consume`, and waits for `consume` before it
 * requests the next chunk.
 */
export async function readContent(
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  consume: (chunk: Uint8Array) => Promise<void> | undefined = () => undefined,
): Promise<StoredContent> {
  const digest = new ContentDigest();
  for await (const chunk of bytes) {
    // The chunk is hashed while `consume` works on it.
    const consumed = consume(chunk);
    digest.add(chunk);
    await consumed;
  }
  return digest.end();
}

/** Size and sha-256 of bytes that are all in memory. */
export const digestOf = (bytes: Uint8Array): StoredContent => ({ size: bytes.length, sha256: hash('sha256', bytes) });

/** The bytes of a file whose first chunks (`chunks`) were read into memory. */
export interface Head {
  readonly chunks: readonly Uint8Array[];
  /** Yields the bytes of the file after `chunks`; undefined if `chunks` is the whole file. */
  readonly rest: AsyncIterator<Uint8Array> | undefined;
}

/**
 * Reads the first chunks of a file. Stops at the end of the file, or as soon as more than `most` bytes or MAX_CHUNKS
 * chunks were read. Throws the errors of `bytes`.
 */
export async function readHead(bytes: AsyncIterable<Uint8Array>, most: number): Promise<Head> {
  const rest = bytes[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  for (let length = 0; length <= most && chunks.length < MAX_CHUNKS; ) {
    const next = await rest.next();
    if (next.done) return { chunks, rest: undefined };
    chunks.push(next.value);
    length += next.value.length;
  }
  return { chunks, rest };
}

/**
 * Yields all bytes of a file: first the chunks of its head, then the bytes of `rest`. Throws the errors of `rest`. A
 * caller that stops early must end `rest` itself.
 */
export async function* behindHead({ chunks, rest }: Head): AsyncGenerator<Uint8Array> {
  yield* chunks;
  for (let next = await rest?.next(); next && !next.done; next = await rest?.next()) yield next.value;
}
