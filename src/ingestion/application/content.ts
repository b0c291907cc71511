import { createHash } from 'node:crypto';
import type { StoredContent } from './ports/file-storage.port.js';

/** Computes the size and sha-256 of bytes that are added chunk by chunk. */
export class ContentDigest {
  private readonly hash = createHash('sha256');
  private size = 0;

  add(chunk: Uint8Array): void {
    this.hash.update(chunk);
    this.size += chunk.length;
  }

  /** The size and sha-256 of all bytes that were added. Must be called only once. */
  end(): StoredContent {
    return { size: this.size, sha256: this.hash.digest('hex') };
  }
}

/** Reads bytes, and returns their size and sha-256. Waits for `consume` of a chunk before it requests the next one. */
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
