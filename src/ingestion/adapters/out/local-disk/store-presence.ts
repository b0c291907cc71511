import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import { hasCode } from '../../../../common/error-code.js';
import { OtherVolumeError, StoreAwayError } from './disk-error.js';
import type { Disk } from './disk.js';

/** Error codes for a store that is read-only or forbidden to the process. A full disk causes another code. */
const UNWRITABLE = ['EROFS', 'EACCES', 'EPERM'];

/**
 * Checks that the store is still at its path, by its lock file and the directories of its parts. Once it is found to be
 * away or unwritable, this instance reports it as away for good: a store that comes back is opened with a new instance.
 */
export class StorePresence {
  whyAway: StoreAwayError | undefined;
  /** Resolves when the store is found to be away. */
  readonly away: Promise<void>;
  private announceAbsence!: () => void;
  private readonly watched = new Map<string, { readonly device: bigint; readonly isThere: () => boolean }>();

  constructor(
    private readonly disk: Disk,
    private readonly root: string,
    private readonly parts: readonly string[],
    private readonly lock: DataDirectoryLock,
  ) {
    this.away = new Promise((resolve) => (this.announceAbsence = resolve));
  }

  get isAway(): boolean {
    return this.whyAway !== undefined;
  }

  /** Begins to watch all parts, which must exist. `assertHere` then notices one that is missing or was replaced. */
  watchParts(): void {
    for (const part of this.parts) this.watch(part);
  }

  /** Watches one more directory, which must exist. `assertHere` checks it only if it is passed as a part. */
  watch(directory: string): void {
    const identity = this.disk.identityOf(directory);
    if (identity) this.watched.set(directory, { device: identity.dev, isThere: this.disk.placeCheck(directory, identity) });
  }

  /**
   * Checks that the lock file and the given parts are in place. Synchronous: one stat for each. Skips parts that aren't
   * watched.
   *
   * @param parts absolute paths. Default: the parts that every store has.
   * @throws StoreAwayError
   */
  assertHere(parts = this.parts): void {
    if (this.whyAway) throw this.whyAway;
    if (!this.lock.isHeld()) this.leave(`${this.root} is gone or was replaced, or its uploads.lock was`);
    for (const part of parts) if (this.watched.get(part)?.isThere() === false) this.leavePart(part);
  }

  /**
   * Checks that a path is on the volume of a part of the store. Synchronous: one stat.
   *
   * @throws OtherVolumeError if it isn't, or the path is missing; StoreAwayError if the path can't be read.
   */
  assertOnVolumeOf(part: string, path: string): void {
    if (this.deviceAt(path) !== this.deviceOf(part)) throw new OtherVolumeError(path, part);
  }

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
    this.whyAway ??= new StoreAwayError(what, cause);
    this.announceAbsence();
    throw this.whyAway;
  }
}
