import { PeriodicJob } from '../../../../common/periodic-job.js';
import type { Bucket } from './bucket.js';
import { FENCE, MARKERS, MAX_MARKER_BYTES } from './keys.js';
import { type Lease, LOST_AFTER_MS } from './lease.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { isRemovalKey } from './stored-uploads/removal-marker.js';
import { UploadRemoval } from './stored-uploads/upload-removal.js';
import { parseUploadMarker, pathsOf, type UploadMarker } from './upload-marker.js';

const SWEEP_EVERY_MS = 60_000;
/** The store is assumed to carry out a request at most this long after the service stopped waiting for the answer. */
const LATE_FOR_MS = 10 * 60_000;

/**
 * Cleans up after failed uploads and crashed processes, including those of other replicas, by the markers in
 * `staging/`: completes or removes unfinished uploads, and completes unfinished removals. Any number of processes may
 * clean up at once.
 */
export class Sweeper {
  private readonly job = new PeriodicJob(() => this.sweep(), () => SWEEP_EVERY_MS);
  private readonly removal: UploadRemoval;
  private readonly malformed = new Set<string>();

  constructor(
    private readonly bucket: Bucket,
    private readonly logger: StorageLogger,
  ) {
    this.removal = new UploadRemoval(bucket, logger);
  }

  start(): void {
    this.job.start(0);
  }

  close(): Promise<void> {
    return this.job.close();
  }

  async sweep(): Promise<void> {
    try {
      await this.sweepMarkers();
    } catch (error) {
      this.logger.warn('Cleaning up after crashed processes failed; retrying.', error);
    }
  }

  /**
   * Settles the uploads of one marker. Failed uploads are removed. If the marker wasn't renewed for a minute, the
   * process of the uploads counts as crashed: the uploads are complete if their segment has lines, and are removed
   * otherwise. Leaves a malformed marker alone, with a warning. Throws errors of the bucket.
   *
   * The remains of a failed upload are removed twice: at once, and at least ten minutes later by the store's clock. A
   * store may carry out a request long after the service has stopped waiting for the answer. Only the marker leads to a
   * file that is created so late, so the marker stays until the second removal.
   */
  async settle(key: string): Promise<void> {
    const found = await this.bucket.read(key);
    if (!found) return;
    const marker = parseUploadMarker(key, found.bytes);
    if (!marker) {
      this.warnOfMalformed(key);
      return;
    }
    let version: string | undefined = found.version;
    if (marker.failed) {
      if (marker.cleared && found.ageMs < LATE_FOR_MS) return;
      await this.bucket.replace(marker.segment, FENCE);
    } else {
      // A marker less than a minute old was renewed after it was listed, so the process of the upload is alive.
      if (found.ageMs < LOST_AFTER_MS) return;
      const isComplete = await this.isComplete(marker);
      // Replaces the marker only in the version that was read, so that only one process decides. If this process
      // stalled, and compaction moved the line meanwhile, the replacement fails and the file stays: compaction moves a
      // line only after its marker is gone.
      const decided = { ...marker, ...(isComplete ? { complete: true } : { failed: true }) };
      version = await this.bucket.replace(key, bytesOf(decided), version);
      if (version === undefined) return;
      if (isComplete) return this.bucket.remove([key]);
    }
    if ('content_path' in marker) await this.bucket.removeParts(marker.content_path);
    await this.bucket.remove(pathsOf(marker));
    if (marker.cleared) await this.bucket.remove([key]);
    else await this.bucket.replace(key, bytesOf({ ...marker, failed: true, cleared: true }), version);
  }

  /**
   * Undoes uploads of this process, whose requests the store may have carried out, or may carry out later. Throws
   * errors of the bucket; the call can then be repeated.
   *
   * @returns false if the uploads stay, because another process has found their lines.
   */
  async undo(marker: Lease<UploadMarker>): Promise<boolean> {
    if (!(await marker.endWith({ failed: true }))) return this.removeFenced(marker.key, marker.current);
    await this.settle(marker.key);
    return true;
  }

  /**
   * Removes the files of failed uploads that another process has settled, because the files may have appeared after
   * that. Writes the marker again if it is missing, so that a later sweep removes the files once more.
   *
   * @returns false if there is no fence in place of the segment: the other process has found the lines.
   */
  private async removeFenced(key: string, marker: UploadMarker): Promise<boolean> {
    const written = await this.bucket.read(marker.segment);
    if (written?.bytes.length !== 0) return false;
    await this.bucket.create(key, bytesOf({ ...marker, failed: true, cleared: true }));
    await this.bucket.remove(pathsOf(marker));
    return true;
  }

  private async sweepMarkers(): Promise<void> {
    for await (const { key, size, ageMs } of this.bucket.list(MARKERS)) {
      if (this.job.signal.aborted) return;
      if (ageMs < LOST_AFTER_MS) continue;
      if (size > MAX_MARKER_BYTES) {
        this.warnOfMalformed(key);
        continue;
      }
      const settling = isRemovalKey(key) ? this.resumeRemoval(key) : this.settle(key);
      await settling.catch((error: unknown) => {
        this.logger.warn(`Settling ${key} failed; retrying.`, error);
      });
    }
  }

  private async resumeRemoval(key: string): Promise<void> {
    if (!(await this.removal.resume(key))) this.warnOfMalformed(key);
  }

  private warnOfMalformed(key: string): void {
    if (this.malformed.has(key)) return;
    this.malformed.add(key);
    this.logger.warn(`${key} is not a marker of this store; leaving it alone.`);
  }

  /** Whether the segment has lines. If not, a fence in its place keeps them from appearing later. */
  private async isComplete({ segment }: UploadMarker): Promise<boolean> {
    if ((await this.bucket.create(segment, FENCE)) !== undefined) return false;
    const written = await this.bucket.read(segment);
    return written !== undefined && written.bytes.length > 0;
  }
}

const bytesOf = (marker: UploadMarker): Buffer => Buffer.from(JSON.stringify(marker));
