import type { Disk } from './disk.js';
import { closeQuietly } from './staged-file.js';

/** Suffix that a file's name has while the file is being written. */
export const UNFINISHED_EXTENSION = '.unfinished';

/**
 * Writes a file that appears as a whole: it is written under another name, which a crash may leave behind, and then
 * renamed. When the promise resolves, the bytes are durable. The name becomes durable when the caller syncs the file's
 * directory. Throws errors of the file system, after which the path is unchanged.
 *
 * @param path absolute path of the file.
 * @param pieces the bytes of the file, in order.
 */
export async function writeWhole(disk: Disk, path: string, pieces: Iterable<Uint8Array>): Promise<void> {
  const unfinished = `${path}${UNFINISHED_EXTENSION}`;
  await disk.remove(unfinished);
  const file = await disk.create(unfinished);
  try {
    let length = 0;
    for (const piece of pieces) {
      await file.write([piece], length);
      length += piece.length;
    }
    await file.sync();
    await closeQuietly(file);
    await disk.rename(unfinished, path);
  } catch (error) {
    await closeQuietly(file);
    await disk.remove(unfinished).catch(() => undefined);
    throw error;
  }
}
