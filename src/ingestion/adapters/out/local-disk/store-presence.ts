import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import { type FileIdentity, isSameFile } from '../../../../common/data-directory/file-identity.js';
import { hasCode, OtherVolumeError, StoreAwayError } from './disk-error.js';
import type { Disk } from './disk.js';

/** What a full disk or a failing one doesn't throw. */
const UNWRITABLE = ['EROFS', 'EACCES', 'EPERM'];

/**
 * Knows whether the store is still at its path: the path of its lock names the file that is locked, and the path of each
 * part names the directory that it named when the store was opened. Once the store is away, this instance reports it as
 * away for good: what comes back is opened again.
 */
export class StorePresence {
  private away: StoreAwayError | undefined;
  private readonly identities = new Map<string, FileIdentity | undefined>();

  constructor(
    private readonly disk: Disk,
    /** Absolute. */
    private readonly root: string,
    /** Absolute paths of the directories that the store writes to. */
    private readonly parts: readonly string[],
    private readonly lock: DataDirectoryLock,
  ) {}

  get isAway(): boolean {
    return this.away !== undefined;
  }

  /** Undefined while the store is here. */
  get whyAway(): StoreAwayError | undefined {
    return this.away;
  }

  /** From now on, a part that is missing or replaced takes the store away. To be called when all parts exist. */
  watchParts(): void {
    for (const part of this.parts) this.identities.set(part, this.disk.identityOf(part));
  }

  /**
   * Synchronous: one stat for the lock, and one for each part.
   *
   * @throws StoreAwayError
   */
  assertHere(parts = this.parts): void {
    if (this.away) throw this.away;
    if (!this.lock.isHeld()) this.leave(`${this.root} is gone or was replaced, or its uploads.lock was`);
    for (const part of parts) this.assertSame(part);
  }

  /** @throws OtherVolumeError when a path is on another volume than a part was at the opening. Synchronous: one stat. */
  assertOnVolumeOf(part: string, path: string): void {
    if (this.identityOf(path)?.dev !== this.identities.get(part)?.dev) throw new OtherVolumeError(path, part);
  }

  /** The device of a part at the opening. */
  deviceOf(part: string): bigint | undefined {
    return this.identities.get(part)?.dev;
  }

  /** Gives the store up when the disk says that it takes no writes. @throws StoreAwayError then. */
  leaveIfUnwritable(error: unknown): void {
    if (hasCode(error, ...UNWRITABLE)) this.leave(`${this.root} can't be written: mount it for writing, and let the user that runs the service write there`, error);
  }

  private assertSame(part: string): void {
    const known = this.identities.get(part);
    if (known && !isSameFile(known, this.identityOf(part))) this.leave(`${part} is gone or was replaced`);
  }

  private identityOf(part: string): FileIdentity | undefined {
    try {
      return this.disk.identityOf(part);
    } catch (error) {
      return this.leave(`${part} can't be read`, error);
    }
  }

  private leave(what: string, cause?: unknown): never {
    throw (this.away ??= new StoreAwayError(what, cause));
  }
}
