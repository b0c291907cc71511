import { join } from 'node:path';
import { v4 as randomUuid, validate as isUuid } from 'uuid';
import { hasCode } from '../../../../common/error-code.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { NotAFileError } from './disk-error.js';
import { type Disk, readWhole } from './disk.js';

const NAME = 'store-id';
const MAX_BYTES = 1024;

/**
 * The id of the store in a directory, from the file `store-id`; undefined if it is missing or contains no valid id.
 *
 * @throws NotAFileError if `store-id` isn't a regular file, or is far too long; an error of the file system.
 */
export async function readStoreId(disk: Disk, root: string): Promise<string | undefined> {
  const id = (await readWhole(disk, join(root, NAME), MAX_BYTES))?.toString('latin1').trim();
  return id !== undefined && isUuid(id) ? id : undefined;
}

/**
 * Returns the id of the store in a directory, and creates one if there is no valid one. By its id, a store that comes
 * back is recognized, even on another device. If the file `store-id` is lost, the next boot writes another id.
 */
export async function ensureStoreId(disk: Disk, root: string, logger: StorageLogger): Promise<string> {
  const known = await readStoreId(disk, root).catch((error: unknown) => {
    if (!(error instanceof NotAFileError)) throw error;
    return undefined;
  });
  if (known !== undefined) return known;
  const id = randomUuid();
  const replacement = join(root, `${NAME}.new`);
  for (const path of [replacement, join(root, NAME)]) await clear(disk, path, logger);
  const file = await disk.create(replacement);
  try {
    await file.write([Buffer.from(`${id}\n`)], 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(replacement, join(root, NAME));
  await disk.syncDirectory(root);
  return id;
}

/** Removes a file. A directory is renamed instead, because someone may want to keep its contents. */
async function clear(disk: Disk, path: string, logger: StorageLogger): Promise<void> {
  try {
    await disk.remove(path);
  } catch (error) {
    if (!hasCode(error, 'EISDIR', 'EPERM')) throw error;
    const aside = `${path}.damaged-${randomUuid()}`;
    await disk.rename(path, aside);
    logger.warn(`${path} is a directory, where the service keeps a file. It was renamed to ${aside}, which may be removed.`);
  }
}
