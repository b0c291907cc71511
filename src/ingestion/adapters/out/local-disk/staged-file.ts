import { createHash } from 'node:crypto';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from './disk-error.js';
import type { DiskFile } from './disk.js';

/**
 * Writes bytes to a new file as they come, one chunk at a time. They are durable after the file's `sync` only.
 *
 * @throws ServiceError `storage-failure`; what `bytes` throws, unchanged.
 */
export const writeStagedFile = (file: DiskFile, bytes: AsyncIterable<Uint8Array>): Promise<StoredContent> =>
  readContent(bytes, (chunk, position) =>
    file.write(chunk, position).catch(storageFailure('A staged file could not be written.')),
  );

/** Its bytes are synced, or the upload fails for another reason: how closing ends changes nothing. Idempotent. */
export const closeQuietly = (file: DiskFile): Promise<void> => file.close().catch(() => undefined);

/** Size and sha-256 of bytes, each chunk of which is consumed before the next is asked for. */
export async function readContent(
  bytes: AsyncIterable<Uint8Array>,
  consume: (chunk: Uint8Array, position: number) => Promise<void> = () => Promise.resolve(),
): Promise<StoredContent> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const chunk of bytes) {
    // Hashed while it is written.
    const consumed = consume(chunk, size);
    hash.update(chunk);
    await consumed;
    size += chunk.length;
  }
  return { size, sha256: hash.digest('hex') };
}
