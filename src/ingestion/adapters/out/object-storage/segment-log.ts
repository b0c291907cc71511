import type { Bucket } from './bucket.js';
import { FENCE } from './keys.js';
import type { Retries } from './retries.js';
import { SegmentQueue } from './segment-queue.js';
import type { SegmentWriter, UploadLine } from './segment-writer.js';

const MAX_DOUBTFUL = 64;
export const TOO_MANY_TO_UNDO = 'Too many failed writes are still to be undone in the store.';

/** Writes the index lines of uploads without a file and without an idempotency key to segments that they share. */
export class SegmentLog {
  private readonly queue = new SegmentQueue<UploadLine>((segment, batch) => this.write(segment, batch), { bytesOf: ({ line }) => line.length });

  constructor(
    private readonly bucket: Bucket,
    private readonly writer: SegmentWriter,
    /** Undoes failed writes that the store may have carried out. Used by this log only. */
    private readonly doubtful: Retries,
  ) {}

  get isRefusing(): boolean {
    return this.doubtful.size >= MAX_DOUBTFUL;
  }

  get waitingLines(): number {
    return this.queue.size;
  }

  /**
   * Writes the index line of an upload that `mayShare` a segment. Resolves when the line is in the store. Rejects with
   * errors of the bucket, if the new segment's key is taken, and at once if `isRefusing`. After a rejection, the line
   * is in no segment, or its segment is undone in the background.
   */
  async append(directory: string, line: UploadLine): Promise<void> {
    if (this.isRefusing) throw new Error(TOO_MANY_TO_UNDO);
    await this.queue.add(directory, line);
  }

  async close(): Promise<void> {
    await this.queue.close();
    await this.doubtful.close();
  }

  private async write(segment: string, batch: readonly UploadLine[]): Promise<undefined> {
    try {
      await this.writer.create(segment, batch);
      return undefined;
    } catch (error) {
      // The store may have written the segment, or may still write it. A fence overwrites it, or prevents that.
      this.doubtful.begin(`Undoing ${segment}`, () => this.bucket.replace(segment, FENCE));
      throw error;
    }
  }
}
