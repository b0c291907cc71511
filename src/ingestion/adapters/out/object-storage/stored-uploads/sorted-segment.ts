import { MIB } from '../../../../../common/sizes.js';
import type { CustomerLines } from '../../../../application/customer-lines.js';
import type { Upload } from '../../../../domain/upload.js';
import type { Bucket, ListedObject } from '../bucket.js';
import type { OnLine, Source } from './newest-first.js';
import { linesIn, LineTooLongError, readPart, wholeLines } from './line-reading.js';

/** Segments of at most this many bytes are read whole. */
export const WHOLE_BYTES = MIB;
const PROBE_BYTES = 16 * 1024;
const FIRST_BLOCK_BYTES = 256 * 1024;
const MAX_BLOCK_BYTES = 32 * MIB;
/** How much longer than expected the next block is, so that one is usually enough. */
const BLOCK_MARGIN = 1.25;
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
  /** How many uploads the list should have. */
  readonly limit: number;
  /** The lines of the customer whose uploads are listed; undefined if the list is of all customers. */
  readonly customer: CustomerLines | undefined;
  /** The offset of a line of more than WHOLE_BYTES that isn't read yet, if one was found. Until then, blocks are short. */
  readonly longLineAt?: number;
}

/**
 * A long segment whose lines are roughly in the order in which their uploads were received. The segment is read in
 * blocks, the last block first. For the list of one customer, the next block is so long that it probably has enough
 * uploads, going by the number of that customer's uploads in the block before.
 *
 * A removal of uploads may shorten the segment meanwhile. A block may then repeat lines, but no unread line is missed.
 */
export class SortedSource implements Source {
  readonly latest: number;
  readonly size: number;

  constructor(
    private readonly bucket: Bucket,
    private readonly segment: ListedObject,
    private readonly sorting: Sorting,
    private readonly end?: number,
    size = FIRST_BLOCK_BYTES,
  ) {
    this.latest = sorting.latest;
    this.size = Math.min(size, end ?? segment.size);
  }

  /** The lines of a long block are read one after the other, and none of them is longer than WHOLE_BYTES. */
  get held(): number {
    return this.longestLine < Infinity ? 2 * WHOLE_BYTES : this.size;
  }

  async read(onLine: OnLine): Promise<readonly Source[]> {
    const { customer, disorderMs, limit, longLineAt = Infinity } = this.sorting;
    const end = this.end ?? (await this.seek());
    const block = { first: Math.max(0, end - this.size), last: end - 1 };
    let first: Upload | undefined;
    let begin: number | undefined;
    let read = 0;
    try {
      for await (const { bytes, offset } of wholeLines(this.bucket, this.segment.key, block, this.longestLine)) {
        begin ??= offset;
        // The first line is always read, because the lines before it are about as old, or older.
        const isSkipped = (at: number): boolean => first !== undefined && customer?.leavesOut(bytes, at) === true;
        for await (const line of linesIn(bytes, offset, isSkipped)) {
          first ??= line.upload;
          read += 1;
          onLine(line.upload, line.end - line.begin);
        }
      }
    } catch (error) {
      if (!(error instanceof LineTooLongError)) throw error;
      return [this.below(end, WHOLE_BYTES, { longLineAt: error.begin })];
    }
    // No line begins in the block: a line is longer, or a removal has shortened the segment. The next block is longer.
    if (begin === undefined) return end <= this.size ? [] : [this.below(end, this.size * 4)];
    if (begin === 0) return [];
    const latest = first ? Math.min(this.latest, first.receivedAt.getTime() + disorderMs) : this.latest;
    if (begin > longLineAt || !customer) return [this.below(begin, Math.min(WHOLE_BYTES, this.size * 2), { latest })];
    const enough = Math.ceil((BLOCK_MARGIN * this.size * limit) / Math.max(1, read));
    return [this.below(begin, Math.min(MAX_BLOCK_BYTES, Math.max(this.size * 2, enough)), { latest, longLineAt: Infinity })];
  }

  private get longestLine(): number {
    const { customer, longLineAt = Infinity } = this.sorting;
    return customer && longLineAt === Infinity && this.size > WHOLE_BYTES ? WHOLE_BYTES : Infinity;
  }

  /** An offset from which on all uploads were received too late for the list. */
  private async seek(): Promise<number> {
    const { until, latest, disorderMs } = this.sorting;
    if (until >= latest) return this.segment.size;
    const later = (await probe(this.bucket, this.segment)).filter(({ upload }) => upload.receivedAt.getTime() - disorderMs > until);
    return Math.min(this.segment.size, ...later.map(({ offset }) => offset));
  }

  private below(end: number, size: number, change: Partial<Sorting> = {}): SortedSource {
    return new SortedSource(this.bucket, this.segment, { ...this.sorting, ...change }, end, size);
  }
}
