import { dirname } from 'node:path';
import { hasCode } from '../../../../common/error-code.js';
import type { Disk } from './disk.js';
import type { StorePresence } from './store-presence.js';

const MAX_KNOWN = 10_000;

/**
 * Creates the root directory of a store and its missing parents, durably. Call `makeRoot` only at boot: a root that is
 * missing later went away with its volume, and a directory created in its place would be another store.
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

/** Creates directories below the root of a store durably. Remembers up to 10,000 that it created or found. */
export class DurableDirectories {
  private readonly known = new Set<string>();
  private readonly making = new Map<string, Promise<void>>();
  private readonly syncing = new Map<string, Promise<void>>();
  private readonly nextSync = new Map<string, Promise<void>>();
  private readonly repeating = new Set<Promise<unknown>>();
  private removing: Promise<void> | undefined;

  constructor(
    private readonly disk: Disk,
    private readonly root: string,
    private readonly presence: Pick<StorePresence, 'assertHere'>,
  ) {}

  /**
   * Creates a directory and its missing ancestors below the root durably, unless the directory is remembered.
   *
   * @throws StoreAwayError; DataDirectoryError if something else has the name of one of the directories; an error of
   *   the file system.
   */
  async ensure(directory: string): Promise<void> {
    this.presence.assertHere();
    await this.made(directory);
  }

  /**
   * Runs an action in a directory, which is first created durably, unless it is remembered. If the action or the
   * creation fails with `ENOENT` or `ENOTDIR`, creates the directory again and runs the action once more.
   *
   * @throws DataDirectoryError if something else has the name of one of the directories; StoreAwayError; an error of
   *   the file system or of the action.
   */
  within<T>(directory: string, action: () => Promise<T>): Promise<T> {
    const first = this.known.has(directory) ? action() : this.made(directory).then(action);
    return first.catch(async (error: unknown) => {
      if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error;
      this.known.clear();
      while (this.removing) await this.removing;
      // Creates every missing directory on the path again, even remembered ones: `removeEmpty` may have removed them.
      const again = (each: string): Promise<void> => this.make(each, again);
      const repeated = again(directory).then(action).finally(() => this.repeating.delete(repeated));
      this.repeating.add(repeated);
      return repeated;
    });
  }

  /**
   * Removes a directory if it is empty. First waits for the actions that `within` runs a second time, so that the
   * directory isn't removed again before such an action has used it. There must be only one call at a time.
   */
  removeEmpty(directory: string): Promise<void> {
    const removal = Promise.allSettled(this.repeating).then(() => this.disk.removeEmptyDirectory(directory));
    const ended = () => { this.removing = undefined; };
    this.removing = removal.then(ended, ended);
    return removal;
  }

  /** Makes durable all names that a directory has at the time of the call. */
  sync(directory: string): Promise<void> {
    const syncing = this.syncing.get(directory);
    if (!syncing) return this.beginSync(directory);
    const waiting = this.nextSync.get(directory);
    if (waiting) return waiting;
    const after = () => {
      this.nextSync.delete(directory);
      return this.beginSync(directory);
    };
    const next = syncing.then(after, after);
    this.nextSync.set(directory, next);
    return next;
  }

  private beginSync(directory: string): Promise<void> {
    const syncing = this.disk.syncDirectory(directory).finally(() => {
      if (this.syncing.get(directory) === syncing) this.syncing.delete(directory);
    });
    this.syncing.set(directory, syncing);
    return syncing;
  }

  private async made(directory: string): Promise<void> {
    if (this.known.has(directory)) return;
    const making = this.making.get(directory) ?? this.make(directory).finally(() => this.making.delete(directory));
    this.making.set(directory, making);
    await making;
    if (this.known.size >= MAX_KNOWN) this.known.clear();
    this.known.add(directory);
  }

  private async make(directory: string, makeParent = (parent: string) => this.made(parent)): Promise<void> {
    if (dirname(directory) !== this.root) await makeParent(dirname(directory));
    this.presence.assertHere();
    await makeUnlessThere(this.disk, directory);
    // Syncs the parent of an existing directory, too: the name isn't durable if its creator crashed before this sync.
    await this.disk.syncDirectory(dirname(directory));
  }
}

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
