import { ServiceError } from '../../../../common/service-error.js';
import { MIB } from '../../../../common/sizes.js';
import { unlessAbsent } from './disk-error.js';
import type { Disk } from './disk.js';

/** Enough for a removal from one segment of 64 MiB: its list, the segment's copy, and its events. */
const RESERVE_BYTES = 128 * MIB;
const RESERVE_SHARE = 0.1;
const MEASURED_EVERY_MS = 1_000;

/**
 * Keeps space for removals: a removal writes before it frees anything, so a full volume could not be emptied. The reserve
 * of a volume is 128 MiB, or a tenth of a smaller volume.
 */
export class SpaceReserve {
  /**
   * How many bytes uploads may write until only the reserve is left. Below 0, uploads must be refused. Uploads subtract
   * what they write, because the space is measured only once a second.
   */
  left = Infinity;
  private shortest = { path: '', reserve: 0 };
  private removals = 0;
  private measuring: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** @param paths absolute paths on the volumes that a removal writes to. Those that are missing don't count. */
  constructor(
    private readonly disk: Disk,
    private readonly paths: readonly string[],
  ) {}

  /**
   * Measures the free space, now and every second from now on.
   *
   * @throws an error of the file system.
   */
  async watch(): Promise<void> {
    await this.measure();
    // A failure isn't reported here: the health check measures, too, and rejects with the error.
    this.timer = setInterval(() => { this.measure().catch(() => undefined); }, MEASURED_EVERY_MS).unref();
  }

  /**
   * Measures the free space, unless a removal is in progress: it is using the reserve.
   *
   * @throws an error of the file system. `left` then stays as it was.
   */
  async measure(): Promise<void> {
    if (this.removals > 0) return;
    this.measuring ??= this.find().finally(() => (this.measuring = undefined));
    await this.measuring;
  }

  /** Runs a part of a removal. Meanwhile, `left` doesn't go down because of what the removal writes. */
  async whileRemoving<T>(removal: () => Promise<T>): Promise<T> {
    this.removals += 1;
    try {
      return await removal();
    } finally {
      this.removals -= 1;
      await this.measure().catch(() => undefined);
    }
  }

  /** @throws ServiceError `storage-failure`, which says that there is no space left for uploads. */
  refuse(): never {
    const { path, reserve } = this.shortest;
    const cause = new Error(`The volume of ${path} has ${inMib(this.left + reserve)} free, and ${inMib(reserve)} are reserved for removals: enlarge it, or remove uploads`);
    throw new ServiceError('storage-failure', 'There is no space left for uploads.', { cause });
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async find(): Promise<void> {
    let left = Infinity;
    for (const path of this.paths) {
      const space = await unlessAbsent(this.disk.spaceAt(path));
      // Some file systems don't know their size, and report 0.
      if (!space?.size) continue;
      const reserve = Math.min(RESERVE_BYTES, space.size * RESERVE_SHARE);
      if (space.free - reserve >= left) continue;
      left = space.free - reserve;
      this.shortest = { path, reserve };
    }
    // A removal that has begun meanwhile may have used some of the space.
    if (this.removals === 0) this.left = left;
  }
}

const inMib = (bytes: number): string => `${Math.max(0, Math.floor(bytes / MIB))} MiB`;
