import { join } from 'node:path';
import { StoreAwayError } from './disk-error.js';
import type { DirectoryOrigin, Disk } from './disk.js';
import { STORE_PARTS } from './store-directory.js';

/**
 * Remembers the identities of a store's root and parts. If the store goes away, it isn't reopened while one of its
 * parts is missing, covered by another volume, or replaced in a way that `assertSame` doesn't allow.
 */
export class StoreVolumes {
  private readonly parts: Map<string, DirectoryOrigin | undefined>;
  private readonly rootOrigin: DirectoryOrigin | undefined;

  constructor(
    private readonly disk: Disk,
    private readonly root: string,
  ) {
    this.rootOrigin = disk.originOf(root);
    // The outermost directories come first, so that an error message names the outermost missing one.
    const names = [...new Set([...STORE_PARTS.map((name) => name.split('/')[0] ?? name), ...STORE_PARTS])];
    this.parts = new Map(names.map((name) => [join(root, name), disk.originOf(join(root, name))]));
  }

  /** @param name the path of a part to remember, relative to the store's root. The part must exist. */
  add(name: string): void {
    const path = join(this.root, name);
    if (!this.parts.has(path)) this.parts.set(path, this.disk.originOf(path));
  }

  /**
   * Checks that each part is the directory that was remembered, on any device. A part that was on the root's volume
   * must still be on it, and may be another directory only if the root is another one too, such as a copy.
   *
   * @throws StoreAwayError
   */
  assertSame(): void {
    const root = this.disk.originOf(this.root);
    const isCopy = root?.inode !== this.rootOrigin?.inode;
    for (const [path, before] of this.parts) {
      const now = this.disk.originOf(path);
      if (!now) throw new StoreAwayError(`${path} is missing: put it back or mount its volume; a restart before that begins with an empty one`);
      const wasOnRoot = before?.device === this.rootOrigin?.device;
      const isOnRoot = now.device === root?.device;
      const isSame = now.inode === before?.inode && (wasOnRoot || now.bornAt === before.bornAt);
      if (wasOnRoot ? !isOnRoot || !(isCopy || isSame) : !isSame) {
        throw new StoreAwayError(`${path} was replaced, or another volume covers it: put the right one back, or restart the service to use this one`);
      }
    }
  }
}
