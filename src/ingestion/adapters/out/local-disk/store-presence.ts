import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import { hasCode, OtherVolumeError, StoreAwayError } from './disk-error.js';
import type { Disk } from './disk.js';

/**
 * Codes of the errors that mean that a store isn't writable. A disk that is full or fails causes errors with other
 * codes.
 */
const UNWRITABLE = ['EROFS', 'EACCES', 'EPERM'];

/**
 * Checks that the store is still at its path: the path of its lock file must name the locked file, and the path of each
 * part must name the same directory as when the store was opened. Once one of these paths was found to be wrong, or the
 * store to be unwritable, this instance reports the store as away for good. When the store comes back, it is opened
 * with a new instance.
 */
export class StorePresence {
  /** Why the store is away: not at its path, not readable, or not writable. Undefined until that is found. */
  whyAway: StoreAwayError | undefined;
  private readonly watched = new Map<string, { readonly device: bigint; readonly isThere: () => boolean }>();

  constructor(
    private readonly disk: Disk,
    /** Absolute path of the store's root directory. */
    private readonly root: string,
    /** Absolute paths of the store's parts: the directories that every store has. */
    private readonly parts: readonly string[],
    private readonly lock: DataDirectoryLock,
  ) {}

  get isAway(): boolean {
    return this.whyAway !== undefined;
  }

  /**
   * Begins to watch the parts of the store, all of which must exist. From then on, a missing or replaced part means
   * that the store is away.
   */
  watchParts(): void {
    for (const part of this.parts) this.watch(part);
  }

  /** Watches one more directory, which must exist. `assertHere` checks it only if the argument `parts` contains it. */
  watch(directory: string): void {
    const identity = this.disk.identityOf(directory);
    if (identity) this.watched.set(directory, { device: identity.dev, isThere: this.disk.placeCheck(directory, identity) });
  }

  /**
   * Checks that the lock file and the given parts of the store are in place. Synchronous: one stat for the lock file,
   * and one for each part. Doesn't check a part that isn't watched yet.
   *
   * @param parts absolute paths. Default: the parts that every store has.
   * @throws StoreAwayError if the store is away already, or this check fails.
   */
  assertHere(parts = this.parts): void {
    if (this.whyAway) throw this.whyAway;
    if (!this.lock.isHeld()) this.leave(`${this.root} is gone or was replaced, or its uploads.lock was`);
    for (const part of parts) if (this.watched.get(part)?.isThere() === false) this.leavePart(part);
  }

  /**
   * Checks that a path is on the volume of a part of the store. Synchronous: one stat.
   *
   * @throws OtherVolumeError if the path is missing, or on another volume than the part was when the store was opened;
   *   StoreAwayError if the path can't be read.
   */
  assertOnVolumeOf(part: string, path: string): void {
    if (this.deviceAt(path) !== this.deviceOf(part)) throw new OtherVolumeError(path, part);
  }

  /** The device number of a part of the store, as it was when the store was opened. Undefined if it isn't watched. */
  deviceOf(part: string): bigint | undefined {
    return this.watched.get(part)?.device;
  }

  /**
   * Marks the store as away if an error means that the store can't be written.
   *
   * @throws StoreAwayError in that case.
   */
  leaveIfUnwritable(error: unknown): void {
    if (hasCode(error, ...UNWRITABLE)) this.leave(`${this.root} can't be written: mount it for writing, and let the user that runs the service write there`, error);
  }

  private leavePart(part: string): never {
    this.deviceAt(part);
    this.leave(`${part} is gone or was replaced`);
  }

  private deviceAt(path: string): bigint | undefined {
    try {
      return this.disk.identityOf(path)?.dev;
    } catch (error) {
      return this.leave(`${path} can't be read`, error);
    }
  }

  private leave(what: string, cause?: unknown): never {
    throw (this.whyAway ??= new StoreAwayError(what, cause));
  }
}
