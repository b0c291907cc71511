import type { Bucket } from './bucket.js';
import { FENCE, MARKERS } from './keys.js';
import { LOST_AFTER_MS } from './lease.js';
import { type Marker, parseMarker } from './marker.js';
import type { StorageLogger } from '../../../application/storage-logger.js';

const SWEEP_EVERY_MS = 60_000;
/** How long a store may take for a request after its answer was given up, in milliseconds. */
const LATE_FOR_MS = 10 * 60_000;

/** Puts in order what lost processes left, whichever they were; any number of processes may do so at once. */
export class Sweeper {
  private timer: NodeJS.Timeout | undefined;
  private sweeping: Promise<void> | undefined;
  private isClosed = false;

  constructor(
    private readonly bucket: Bucket,
    private readonly logger: StorageLogger,
  ) {}

  /** Sweeps now and each minute. */
  start(): void {
    this.timer = setInterval(() => { void this.sweep(); }, SWEEP_EVERY_MS).unref();
    void this.sweep();
  }

  /** Ends a sweep at its next marker. */
  async close(): Promise<void> {
    this.isClosed = true;
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

  /**
   * Puts one upload in order, if it has failed or its process is lost; throws what the bucket throws.
   *
   * What a failed upload left is removed twice: at once, and ten minutes later, by the store's clock. A store may carry
   * out a request long after its answer was given up, and only the marker leads to what it makes then.
   */
  async settle(key: string): Promise<void> {
    const found = await this.bucket.read(key);
    const marker = found && parseMarker(found.bytes);
    if (!found || !marker) return;
    let version: string | undefined = found.version;
    if (marker.failed) {
      if (marker.cleared && found.ageMs < LATE_FOR_MS) return;
      await this.bucket.replace(marker.segment, FENCE);
    } else {
      // Renewed meanwhile.
      if (found.ageMs < LOST_AFTER_MS) return;
      const isComplete = await this.isComplete(marker);
      // One decides. Compaction moves a line when its marker is gone: whoever stood still until then finds none, and the file stays.
      const decided = { ...marker, ...(isComplete ? { complete: true } : { failed: true }) };
      version = await this.bucket.replace(key, bytesOf(decided), version);
      if (version === undefined) return;
      if (isComplete) return this.bucket.remove([key]);
    }
    await this.bucket.removeParts(marker.content_path);
    await this.bucket.remove([marker.content_path]);
    if (marker.cleared) await this.bucket.remove([key]);
    else await this.bucket.replace(key, bytesOf({ ...marker, failed: true, cleared: true }), version);
  }

  /**
   * Removes a file that came behind the settling of its upload, when a fence stands where its line was to be; a later
   * sweep looks once more.
   */
  async removeFenced(key: string, marker: Marker): Promise<void> {
    const written = await this.bucket.read(marker.segment);
    if (written?.bytes.length !== 0) return;
    await this.bucket.create(key, bytesOf({ ...marker, failed: true, cleared: true }));
    await this.bucket.remove([marker.content_path]);
  }

  private async sweepNow(): Promise<void> {
    for await (const { key, ageMs } of this.bucket.list(MARKERS)) {
      if (this.isClosed) return;
      if (ageMs < LOST_AFTER_MS) continue;
      await this.settle(key).catch((error: unknown) => {
        this.logger.warn(`Settling ${key} failed; it is tried again.`, error);
      });
    }
  }

  /** Either the line is there, or it can't come any more when the file goes. */
  private async isComplete({ segment }: Marker): Promise<boolean> {
    if ((await this.bucket.create(segment, FENCE)) !== undefined) return false;
    const written = await this.bucket.read(segment);
    return written !== undefined && written.bytes.length > 0;
  }
}

const bytesOf = (marker: Marker): Buffer => Buffer.from(JSON.stringify(marker));
