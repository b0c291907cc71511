import { join } from 'node:path';
import { StoreAwayError } from './disk-error.js';
import type { DirectoryOrigin, Disk } from './disk.js';
import { STORE_PARTS } from './store-directory.js';

/**
 * The volumes of a store, remembered from when it was opened, so that a store isn't opened again while one of its parts
 * is covered by another volume, or the part's own volume is missing.
 */
export class StoreVolumes {
  private readonly parts: ReadonlyMap<string, DirectoryOrigin | undefined>;
  private readonly rootDevice: bigint | undefined;

  constructor(
    private readonly disk: Disk,
    /** Absolute. */
    private readonly root: string,
  ) {
    this.rootDevice = disk.deviceOf(root);
    this.parts = new Map(STORE_PARTS.map((name) => [join(root, name), disk.originOf(join(root, name))]));
  }

  /**
   * A part is the right one when it is on the root's volume, as before, or is the same directory of a volume of its own.
   * A part of the root's volume may be missing: it is made again.
   *
   * @throws StoreAwayError
   */
  assertSame(): void {
    const rootDevice = this.disk.deviceOf(this.root);
    for (const [path, before] of this.parts) {
      const now = this.disk.originOf(path);
      const wasOnRoot = before?.device === this.rootDevice;
      const isRight = wasOnRoot ? !now || now.device === rootDevice : now && now.inode === before?.inode && now.bornAt === before.bornAt;
      if (!isRight) throw new StoreAwayError(`${path} is on another volume than before: mount the right one, or restart the service to use this one`);
    }
  }
}
