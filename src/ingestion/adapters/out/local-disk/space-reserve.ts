import { ServiceError } from '../../../../common/service-error.js';
import { MIB } from '../../../../common/sizes.js';
import { unlessAbsent } from './disk-error.js';
import type { Disk } from './disk.js';

const RESERVE_BYTES = 128 * MIB;
const RESERVE_FILES = 10_000;
const RESERVE_SHARE = 0.1;
const MEASURED_EVERY_MS = 1_000;

/**
 * Keeps space for removals: a removal writes before it frees anything, so a full volume could not be emptied. The reserve
 * of each volume is 128 MiB and 10,000 files, or a tenth of what a smaller volume has. Uploads must be refused when only
 * the reserve is left.
 */
export class SpaceReserve {
  /**
   * How many bytes uploads may write until only the reserve is left. Uploads subtract what they write, because the space
   * is measured only once a second. They do so without a call, because every upload does. Below 0, all uploads must be
   * refused: there are too few bytes or files.
   */
  left = Infinity;
  /** How many files uploads may create until only the reserve is left. Uploads subtract each. */
  filesLeft = Infinity;
  /**
   * The most bytes that a segment may have unless it has a single line. A removal copies a segment, and also writes the
   * list and the events of what it removes, so a segment has half of the reserve.
   */
  longestSegment = Infinity;
  private shortest = { bytes: NO_LIMIT, files: NO_LIMIT };
  private removals = 0;
  private measuring: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** @param paths absolute paths on the volumes of the store. Those that are missing don't count. */
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
    this.timer = setInterval(() => { if (!this.measuring) this.measure().catch(() => undefined); }, MEASURED_EVERY_MS).unref();
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
    const areFilesShort = this.filesLeft < 1;
    const { path, reserve } = areFilesShort ? this.shortest.files : this.shortest.bytes;
    const show = areFilesShort ? inFiles : inMib;
    const free = show((areFilesShort ? this.filesLeft : this.left) + reserve);
    const cause = new Error(`The volume of ${path} has ${free} free, and ${show(reserve)} are reserved for removals: enlarge it, or remove uploads`);
    throw new ServiceError('storage-failure', 'There is no space left for uploads.', { cause });
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async find(): Promise<void> {
    let [bytes, files] = [NO_LIMIT, NO_LIMIT];
    let longestSegment = Infinity;
    for (const path of this.paths) {
      const space = await unlessAbsent(this.disk.spaceAt(path));
      if (!space) continue;
      const ofBytes = limitOf(path, space.free, space.size, RESERVE_BYTES);
      bytes = shorter(bytes, ofBytes);
      files = shorter(files, limitOf(path, space.freeFiles, space.files, RESERVE_FILES));
      if (ofBytes !== NO_LIMIT) longestSegment = Math.min(longestSegment, ofBytes.reserve / 2);
    }
    // A removal that has begun meanwhile may have used some of the space.
    if (this.removals > 0) return;
    this.shortest = { bytes, files };
    this.longestSegment = longestSegment;
    this.filesLeft = files.left;
    this.left = files.left < 1 ? -1 : bytes.left;
  }
}

/** What a volume has of bytes, or of files. */
interface Limit {
  readonly path: string;
  readonly reserve: number;
  /** How much is left until only the reserve is. */
  readonly left: number;
}
const NO_LIMIT: Limit = { path: '', reserve: 0, left: Infinity };

/** Some file systems don't limit bytes or files, or don't know the limit, and report 0 of 0. */
function limitOf(path: string, free: number, all: number, most: number): Limit {
  const reserve = Math.min(most, all * RESERVE_SHARE);
  return all > 0 ? { path, reserve, left: free - reserve } : NO_LIMIT;
}

const shorter = (one: Limit, other: Limit): Limit => (other.left < one.left ? other : one);
const inMib = (bytes: number): string => `${Math.max(0, Math.floor(bytes / MIB))} MiB`;
const inFiles = (count: number): string => `${Math.max(0, Math.floor(count))} files`;
