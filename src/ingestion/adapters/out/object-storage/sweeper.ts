import type { Bucket } from './bucket.js';
import { MARKERS } from './keys.js';
import { LOST_AFTER_MS } from './lease.js';
import type { StorageLogger } from './storage-logger.js';

const SWEEP_EVERY_MS = 60_000;

/** What is known of an upload with a file that is under way. */
export interface Marker {
  readonly content_path: string;
  /** Where its line will be, alone. */
  readonly segment: string;
}

/** Puts in order what lost processes left, whichever they were; any number of processes may do so at once. */
export class Sweeper {
  private timer: NodeJS.Timeout | undefined;
  private sweeping: Promise<void> | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly logger: StorageLogger,
  ) {}

  /** Sweeps now and each minute. */
  start(): void {
    this.timer = setInterval(() => { void this.sweep(); }, SWEEP_EVERY_MS).unref();
    void this.sweep();
  }

  /** Resolves when no sweep is under way any more. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.sweeping;
  }

  /** One sweep; what fails is told, and left to the next. */
  sweep(): Promise<void> {
    this.sweeping ??= this.sweepNow()
      .catch((error: unknown) => {
        this.logger.warn('Looking after what lost processes left failed; it is tried again.', error);
      })
      .finally(() => {
        this.sweeping = undefined;
      });
    return this.sweeping;
  }

  private async sweepNow(): Promise<void> {
    for await (const { key, ageMs } of this.bucket.list(MARKERS)) {
      if (ageMs < LOST_AFTER_MS) continue;
      await this.settle(key).catch((error: unknown) => {
        this.logger.warn(`Settling ${key} failed; it is tried again.`, error);
      });
    }
  }

  /** Either the line is there, or it can't come any more when the file goes. */
  private async settle(key: string): Promise<void> {
    const found = await this.bucket.read(key);
    // Ended or renewed meanwhile.
    if (!found || found.ageMs < LOST_AFTER_MS) return;
    const marker = JSON.parse(found.bytes.toString()) as Marker;
    if (!(await this.isComplete(marker))) {
      // Compaction moves a line when its marker is gone: whoever stood still until then finds none, and the file stays.
      if ((await this.bucket.replace(key, found.bytes, found.version)) === undefined) return;
      await this.bucket.removeParts(marker.content_path);
      await this.bucket.remove([marker.content_path]);
    }
    await this.bucket.remove([key]);
  }

  private async isComplete({ segment }: Marker): Promise<boolean> {
    if ((await this.bucket.create(segment, Buffer.alloc(0))) !== undefined) return false;
    const written = await this.bucket.read(segment);
    return written !== undefined && written.bytes.length > 0;
  }
}
