import { createHash } from 'node:crypto';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from './disk-error.js';
import type { DiskFile } from './disk.js';

/**
 * Writes bytes to a new file as they come, one chunk at a time, and closes the file whatever happens. When it
 * resolves, the bytes are durable; the file's name isn't yet.
 *
 * @throws ServiceError `storage-failure`; what `bytes` throws, unchanged.
 */
export async function writeStagedFile(file: DiskFile, bytes: AsyncIterable<Uint8Array>): Promise<StoredContent> {
  try {
    const stored = await readContent(bytes, (chunk, position) =>
      file.write(chunk, position).catch(storageFailure('A staged file could not be written.')),
    );
    await file.sync().catch(storageFailure('A staged file could not be synced.'));
    return stored;
  } finally {
    // Its bytes are synced, or the upload fails for another reason: how closing ends changes nothing.
    await file.close().catch(() => undefined);
  }
}

/** Size and sha-256 of bytes, each chunk of which is consumed before the next is asked for. */
export async function readContent(
  bytes: AsyncIterable<Uint8Array>,
  consume: (chunk: Uint8Array, position: number) => Promise<void> = () => Promise.resolve(),
): Promise<StoredContent> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const chunk of bytes) {
    hash.update(chunk);
    await consume(chunk, size);
    size += chunk.length;
  }
  return { size, sha256: hash.digest('hex') };
}
