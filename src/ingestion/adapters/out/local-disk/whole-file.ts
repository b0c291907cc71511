import { closeQuietly, type Disk } from './disk.js';

/** Suffix of a name until its file or event entry is complete. A crash may leave such a name behind. */
export const UNFINISHED_EXTENSION = '.unfinished';

/**
 * Writes a file under another name, which a crash may leave behind, and renames it. The file's bytes are then durable,
 * but its name isn't until the caller syncs the directory. After an error, the path is unchanged.
 *
 * @param path absolute path of the file.
 */
export async function writeWhole(disk: Disk, path: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const unfinished = `${path}${UNFINISHED_EXTENSION}`;
  await disk.remove(unfinished);
  const file = await disk.create(unfinished);
  try {
    let length = 0;
    for await (const piece of pieces) {
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
