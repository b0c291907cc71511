import { ServiceError } from '../../../../common/service-error.js';
import { MIB } from '../../../../common/sizes.js';
import { unlessAbsent } from './disk-error.js';
import type { Disk } from './disk.js';

/** Enough for the largest removal of one segment: its list, the copy of a segment of 64 MiB, and its events. */
const RESERVE_BYTES = 128 * MIB;
const RESERVE_SHARE = 0.1;
const MEASURED_EVERY_MS = 1_000;
const MEASURED_EVERY_BYTES = 16 * MIB;

/** The error when only the space that is reserved for removals is left. */
export class OutOfSpaceError extends Error {
  constructor(path: string, free: number, reserve: number) {
    super(`The volume of ${path} has ${inMib(free)} free, and ${inMib(reserve)} are reserved for removals: enlarge it, or remove uploads`);
    this.name = new.target.name;
  }
}

const inMib = (bytes: number): string => `${Math.floor(bytes / MIB)} MiB`;

/**
 * Keeps space for removals: a removal writes before it frees anything, so a full volume could not be emptied. While there
 * is a `shortage`, uploads must be refused. The reserve of a volume is 128 MiB, or a tenth of a smaller volume.
 */
export class SpaceReserve {
  /** Why uploads must be refused; undefined while there is enough space. */
  shortage: OutOfSpaceError | undefined;
  private unmeasuredBytes = 0;
  private measuring: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** @param paths absolute paths on the volumes that a removal writes to. Those that are missing don't count. */
  constructor(
    private readonly disk: Disk,
    private readonly paths: readonly string[],
  ) {}

  /**
   * Measures the free space now, and from then on every second, and after every 16 MiB that are `written`.
   *
   * @throws an error of the file system.
   */
  async watch(): Promise<void> {
    await this.measure();
    this.timer = setInterval(() => { this.measureLater(); }, MEASURED_EVERY_MS).unref();
  }

  /** @throws an error of the file system. `shortage` then stays as it was. */
  measure(): Promise<void> {
    this.measuring ??= this.find().finally(() => (this.measuring = undefined));
    return this.measuring;
  }

  /**
   * Counts bytes of an upload that were written.
   *
   * @throws ServiceError `storage-failure` while there is a shortage.
   */
  written(bytes: number): void {
    this.unmeasuredBytes += bytes;
    if (this.unmeasuredBytes >= MEASURED_EVERY_BYTES) this.measureLater();
    if (this.shortage) throw new ServiceError('storage-failure', 'The store has no space for uploads.', { cause: this.shortage });
  }

  close(): void {
    clearInterval(this.timer);
  }

  /** Doesn't report a failure: the health check measures, too, and rejects with the error. */
  private measureLater(): void {
    this.measure().catch(() => undefined);
  }

  private async find(): Promise<void> {
    this.unmeasuredBytes = 0;
    let shortage: OutOfSpaceError | undefined;
    for (const path of this.paths) {
      const space = await unlessAbsent(this.disk.spaceAt(path));
      if (!space) continue;
      const reserve = Math.min(RESERVE_BYTES, space.size * RESERVE_SHARE);
      if (space.free < reserve) shortage ??= new OutOfSpaceError(path, space.free, reserve);
    }
    this.shortage = shortage;
  }
}
