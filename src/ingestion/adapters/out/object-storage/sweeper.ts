import type { Bucket } from './bucket.js';
import { FENCE, MARKERS } from './keys.js';
import { LOST_AFTER_MS } from './lease.js';
import { type Marker, parseMarker } from './marker.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { isRemovalKey } from './stored-uploads/removal-marker.js';
import { UploadRemoval } from './stored-uploads/upload-removal.js';

const SWEEP_EVERY_MS = 60_000;
/** How long a store may need for a request after its answer was given up, in milliseconds. */
const LATE_FOR_MS = 10 * 60_000;

/**
 * Cleans up after crashed processes, its own or others: ends or completes their uploads, and completes their removals.
 * Any number of processes may clean up at once.
 */
export class Sweeper {
  private timer: NodeJS.Timeout | undefined;
  private sweeping: Promise<void> | undefined;
  private readonly removal: UploadRemoval;
  private isClosed = false;

  constructor(
    private readonly bucket: Bucket,
    private readonly logger: StorageLogger,
  ) {
    this.removal = new UploadRemoval(bucket);
  }

  /** Sweeps now and each minute. */
  start(): void {
    this.timer = setInterval(() => { void this.sweep(); }, SWEEP_EVERY_MS).unref();
    void this.sweep();
  }

  /** Stops a sweep at its next marker. */
  async close(): Promise<void> {
    this.isClosed = true;
    clearInterval(this.timer);
    await this.sweeping;
  }

  /** Sweeps once. A failure is logged, and left to the next sweep. */
  sweep(): Promise<void> {
    this.sweeping ??= this.sweepNow()
      .catch((error: unknown) => {
        this.logger.warn('Cleaning up after crashed processes failed; retrying.', error);
      })
      .finally(() => {
        this.sweeping = undefined;
      });
    return this.sweeping;
  }

  /**
   * Completes or removes one upload, if it has failed or its process has crashed. Throws errors of the bucket.
   *
   * The remains of a failed upload are removed twice: at once, and ten minutes later by the store's clock. A store may
   * carry out a request long after its answer was given up, and only the marker leads to what the store creates then.
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
      // The marker was renewed in the meantime.
      if (found.ageMs < LOST_AFTER_MS) return;
      const isComplete = await this.isComplete(marker);
      // Only one process decides. Compaction moves a line once its marker is gone. A process that stalled until then
      // finds no marker either, so the file stays.
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
   * Removes a file that appeared after its upload was settled, if a fence is in place of its line. A later sweep checks
   * once more.
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
      const settling = isRemovalKey(key) ? this.removal.resume(key) : this.settle(key);
      await settling.catch((error: unknown) => {
        this.logger.warn(`Settling ${key} failed; retrying.`, error);
      });
    }
  }

  /** Whether the line exists. If not, creates a fence, so that the line can't appear after the file was removed. */
  private async isComplete({ segment }: Marker): Promise<boolean> {
    if ((await this.bucket.create(segment, FENCE)) !== undefined) return false;
    const written = await this.bucket.read(segment);
    return written !== undefined && written.bytes.length > 0;
  }
}

const bytesOf = (marker: Marker): Buffer => Buffer.from(JSON.stringify(marker));
