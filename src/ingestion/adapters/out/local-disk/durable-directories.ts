import { dirname } from 'node:path';
import { hasCode } from './disk-error.js';
import type { Disk } from './disk.js';
import type { StorePresence } from './store-presence.js';

const MOST_KNOWN = 10_000;

/**
 * Makes the root of a store and what is missing above it, each with its entry in its parent synced where we may. At
 * boot only: a root that goes later took its volume with it, and what would be made in its place is another store.
 */
export async function makeRoot(disk: Disk, directory: string): Promise<void> {
  const made = await makeUnlessThere(disk, directory).catch(async (error: unknown) => {
    if (!hasCode(error, 'ENOENT') || dirname(directory) === directory) throw error;
    await makeRoot(disk, dirname(directory));
    return makeUnlessThere(disk, directory);
  });
  await disk.syncDirectory(dirname(directory)).catch((error: unknown) => {
    if (made || !hasCode(error, 'EACCES', 'EPERM')) throw error;
  });
}

/** Makes directories below a root, each with its entry in its parent synced, and remembers those that it made or found. */
export class DurableDirectories {
  private readonly known = new Map<string, Promise<void>>();

  constructor(
    private readonly disk: Disk,
    /** Absolute. It is there already (`makeRoot`). */
    private readonly root: string,
    private readonly presence: Pick<StorePresence, 'assertHere'>,
  ) {}

  /**
   * Resolves when the directory and all above it, up to the root, are durable.
   *
   * @throws StoreAwayError and makes nothing.
   */
  async ensure(directory: string): Promise<void> {
    this.presence.assertHere();
    await this.made(directory);
  }

  /**
   * Runs an action in a durable directory; once more when someone removed the directory since it was made.
   *
   * @throws DataDirectoryError when something else has the name of a directory; StoreAwayError; what the action throws.
   */
  async within<T>(directory: string, action: () => Promise<T>): Promise<T> {
    await this.made(directory);
    try {
      return await action();
    } catch (error) {
      if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error;
      this.known.clear();
      await this.made(directory);
      return action();
    }
  }

  private made(directory: string): Promise<void> {
    const known = this.known.get(directory);
    if (known) return known;
    if (this.known.size >= MOST_KNOWN) this.known.clear();
    const made = this.make(directory);
    this.known.set(directory, made);
    made.catch(() => this.known.delete(directory));
    return made;
  }

  private async make(directory: string): Promise<void> {
    if (dirname(directory) !== this.root) await this.made(dirname(directory));
    this.presence.assertHere();
    await makeUnlessThere(this.disk, directory);
    // Also for one that was there: whoever made it may have died before its entry was durable.
    await this.disk.syncDirectory(dirname(directory));
  }
}

/** Resolves to whether it made the directory. @throws DataDirectoryError when the name is taken by something else. */
async function makeUnlessThere(disk: Disk, directory: string): Promise<boolean> {
  try {
    await disk.makeDirectory(directory);
    return true;
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    await disk.assertDirectory(directory);
    return false;
  }
}
