import type { DataDirectoryLock } from '../../../../data-directory/data-directory-lock.js';
import { hasCode, StoreAwayError } from './disk-error.js';
import type { Disk } from './disk.js';

/** What a full disk or a failing one doesn't throw. */
const UNWRITABLE = ['EROFS', 'EACCES', 'EPERM'];

/**
 * Knows whether the store is still at its path. It is while the path of its lock names the file that is locked, and
 * each of its parts is on the volume that it was on. Once it wasn't, this says so for good: it is opened again then.
 */
export class StorePresence {
  private away: StoreAwayError | undefined;
  private readonly devices = new Map<string, bigint>();

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

  /**
   * One stat, and one for each part. A part that is missing was removed, and may be made again.
   *
   * @throws StoreAwayError
   */
  assertHere(parts = this.parts): void {
    if (this.away) throw this.away;
    if (!this.lock.isHeld()) this.leave(`${this.root} is gone or was replaced, or its uploads.lock was`);
    for (const part of parts) this.assertSameVolume(part);
  }

  /** Gives the store up when the disk says that it takes no writes. @throws StoreAwayError then. */
  leaveIfUnwritable(error: unknown): void {
    if (hasCode(error, ...UNWRITABLE)) this.leave(`${this.root} can't be written`, error);
  }

  private assertSameVolume(part: string): void {
    let device: bigint | undefined;
    try {
      device = this.disk.deviceOf(part);
    } catch (error) {
      this.leave(`${part} can't be looked at`, error);
    }
    if (device === undefined) return;
    const known = this.devices.get(part) ?? device;
    this.devices.set(part, known);
    if (known !== device) this.leave(`The volume of ${part} is gone or was replaced`);
  }

  private leave(what: string, cause?: unknown): never {
    throw (this.away ??= new StoreAwayError(what, cause));
  }
}
