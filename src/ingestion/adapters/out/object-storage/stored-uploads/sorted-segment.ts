import { MIB } from '../../../../../common/sizes.js';
import type { Upload } from '../../../../domain/upload.js';
import type { Bucket, ListedObject } from '../bucket.js';
import type { OnLine, Source } from './newest-first.js';
import { linesIn, readPart } from './line-reading.js';

/** Segments of at most this many bytes are read whole. */
export const WHOLE_BYTES = MIB;
const PROBE_BYTES = 16 * 1024;
const FIRST_BLOCK_BYTES = 256 * 1024;
const MAX_PROBES = 16;

export interface Probe {
  readonly offset: number;
  readonly upload: Upload;
}

/**
 * Reads single index lines of a long segment at equal distances: one for each MiB, at most 16. A place where lines are
 * longer than 16 KiB may give no line.
 *
 * @throws SegmentGoneError if the segment is missing.
 */
export async function probe(bucket: Bucket, { key, size }: ListedObject): Promise<Probe[]> {
  const count = Math.min(MAX_PROBES, Math.floor(size / WHOLE_BYTES));
  const probes = Array.from({ length: count }, async (_, index) => {
    const first = Math.floor((size * (index + 1)) / (count + 1));
    const part = await readPart(bucket, key, { first, last: first + PROBE_BYTES });
    for await (const { upload, begin: offset } of part ? linesIn(part.bytes, part.offset) : []) return { offset, upload };
    return undefined;
  });
  return (await Promise.all(probes)).filter((found) => found !== undefined);
}

interface Sorting {
  readonly latest: number;
  /** Uploads that were received later than this aren't needed, in milliseconds since 1970. */
  readonly until: number;
  /** How much earlier, at most, an upload may have been received than the upload of a line before it. */
  readonly disorderMs: number;
}

/**
 * A long segment whose lines are roughly in the order in which their uploads were received. The segment is read in
 * blocks, the last block first.
 *
 * A removal of uploads may shorten the segment meanwhile. A block may then repeat lines, but no unread line is missed.
 */
export class SortedSource implements Source {
  readonly latest: number;

  constructor(
    private readonly bucket: Bucket,
    private readonly segment: ListedObject,
    private readonly sorting: Sorting,
    private readonly end?: number,
    readonly size = FIRST_BLOCK_BYTES,
  ) {
    this.latest = sorting.latest;
  }

  async read(onLine: OnLine): Promise<readonly Source[]> {
    const end = this.end ?? (await this.seek());
    const { key } = this.segment;
    const part = await readPart(this.bucket, key, { first: Math.max(0, end - this.size), last: end - 1 });
    // No line begins in the block: a line is longer, or a removal has shortened the segment. The next block is longer.
    if (!part) return end <= this.size ? [] : [this.below(end, this.latest, this.size * 4)];
    let first: Upload | undefined;
    for await (const { upload, begin, end: lineEnd } of linesIn(part.bytes)) {
      first ??= upload;
      onLine(upload, lineEnd - begin);
    }
    const latest = first ? Math.min(this.latest, first.receivedAt.getTime() + this.sorting.disorderMs) : this.latest;
    return part.offset === 0 ? [] : [this.below(part.offset, latest, Math.min(WHOLE_BYTES, this.size * 2))];
  }

  /** An offset from which on all uploads were received too late for the list. */
  private async seek(): Promise<number> {
    const { until, latest, disorderMs } = this.sorting;
    if (until >= latest) return this.segment.size;
    const later = (await probe(this.bucket, this.segment)).filter(({ upload }) => upload.receivedAt.getTime() - disorderMs > until);
    return Math.min(this.segment.size, ...later.map(({ offset }) => offset));
  }

  private below(end: number, latest: number, size: number): SortedSource {
    return new SortedSource(this.bucket, this.segment, { ...this.sorting, latest }, end, size);
  }
}
