import { closeQuietly, type Disk } from './disk.js';

/** Suffix of the name that a file or an event entry has until it is complete. A crash may leave such a name behind. */
export const UNFINISHED_EXTENSION = '.unfinished';

/**
 * Writes a file so that it appears as a whole: writes the bytes under another name, which a crash may leave behind, and
 * then renames that file. When the promise resolves, the bytes are durable. The name isn't durable until the caller
 * syncs the directory. Throws errors of the file system, after which the path is unchanged.
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
