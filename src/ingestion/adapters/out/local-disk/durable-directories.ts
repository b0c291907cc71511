import { dirname } from 'node:path';
import { hasCode } from './disk-error.js';
import type { Disk } from './disk.js';

const MOST_KNOWN = 10_000;

/** Makes directories, each with its entry in its parent synced, and remembers those that it made or found. */
export class DurableDirectories {
  private readonly known = new Map<string, Promise<void>>();

  constructor(
    private readonly disk: Disk,
    /** Absolute. What is above it isn't ours: it is made where it is missing, and synced where we may. */
    private readonly root: string,
  ) {}

  /** Resolves when the directory and all above it, up to the root's own entry, are durable. */
  ensure(directory: string): Promise<void> {
    const known = this.known.get(directory);
    if (known) return known;
    if (this.known.size >= MOST_KNOWN) this.known.clear();
    const made = directory === this.root ? this.makeAboveStore(directory) : this.make(directory);
    this.known.set(directory, made);
    made.catch(() => this.known.delete(directory));
    return made;
  }

  /** Runs an action in a durable directory; once more when someone removed the directory since it was made. */
  async within<T>(directory: string, action: () => Promise<T>): Promise<T> {
    await this.ensure(directory);
    try {
      return await action();
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      this.known.clear();
      await this.ensure(directory);
      return action();
    }
  }

  private async make(directory: string): Promise<void> {
    await this.ensure(dirname(directory));
    await this.makeUnlessThere(directory);
    // Also for one that was there: whoever made it may have died before its entry was durable.
    await this.disk.syncDirectory(dirname(directory));
  }

  private async makeAboveStore(directory: string): Promise<void> {
    const made = await this.makeUnlessThere(directory).catch(async (error: unknown) => {
      if (!hasCode(error, 'ENOENT') || dirname(directory) === directory) throw error;
      await this.makeAboveStore(dirname(directory));
      return this.makeUnlessThere(directory);
    });
    await this.disk.syncDirectory(dirname(directory)).catch((error: unknown) => {
      if (made || !hasCode(error, 'EACCES', 'EPERM')) throw error;
    });
  }

  private async makeUnlessThere(directory: string): Promise<boolean> {
    try {
      await this.disk.makeDirectory(directory);
      return true;
    } catch (error) {
      if (hasCode(error, 'EEXIST')) return false;
      throw error;
    }
  }
}
