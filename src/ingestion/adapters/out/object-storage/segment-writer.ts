import { joined } from '../../../../common/joined.js';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import type { Bucket } from './bucket.js';
import type { LateSegments } from './event-outbox/late-segments.js';

/** The index line of an upload, with its newline. */
export interface UploadLine {
  readonly uploadId: string;
  readonly line: Buffer;
}

/** Creates segments (objects with index lines), and reports each attempt to `onFlush`. */
export class SegmentWriter {
  constructor(
    private readonly bucket: Bucket,
    private readonly late: LateSegments,
    private readonly onFlush: (flush: IndexFlush) => void,
  ) {}

  /**
   * Creates a segment. Resolves when its lines are in the store. Rejects with errors of the bucket, after which the
   * store may have the segment, and if the key is taken.
   */
  async create(segment: string, lines: readonly UploadLine[]): Promise<void> {
    const began = performance.now();
    let ok = false;
    try {
      const write = () => this.bucket.create(segment, joined(lines.map(({ line }) => line)));
      const version = await this.late.around(segment, () => lines.map(({ uploadId }) => uploadId), write);
      if (version === undefined) throw new Error(`${segment} exists already: another process considered this one crashed.`);
      ok = true;
    } finally {
      this.onFlush({ lines: lines.length, seconds: (performance.now() - began) / 1000, ok });
    }
  }
}
