import type { OpenSegment } from '../idempotency-keys.js';
import { MAX_DISORDER_MS } from '../max-disorder.js';
import type { SegmentReader, SegmentSpan } from './segment-reader.js';

/** The maximum number of segments whose disorder is remembered. An entry takes about 200 bytes. */
const MOST_SEGMENTS = 10_000;
/**
 * A segment is measured if its lines of MAX_DISORDER_MS have more than this many bytes. To read so few lines for each
 * page costs less than to read the whole segment once.
 */
const FEW_BYTES = 1024 * 1024;

/**
 * Knows by how much the lines of segments are out of order: the longest time, in milliseconds, by which the upload of a
 * line was received earlier than the upload of a line before it in the same segment. It is at most MAX_DISORDER_MS, and
 * mostly a few milliseconds. A page of the list must be read back as far as lines may be out of order, so a busy
 * service that assumed MAX_DISORDER_MS would read the lines of ten seconds for each page.
 */
export class SegmentDisorders {
  /** The disorder of closed segments by path. It never grows: a removal leaves lines out, but keeps their order. */
  private readonly closed = new Map<string, Promise<number>>();

  constructor(
    /** The segments that this process writes to, by path. */
    private readonly openSegments: ReadonlyMap<string, OpenSegment>,
  ) {}

  /** Remembers the disorder of a segment to which no line will be added, in milliseconds. */
  remember(path: string, disorderMs: number): void {
    this.keep(path, Promise.resolve(disorderMs));
  }

  /**
   * An upper bound for the disorder of a segment's durable lines, in milliseconds. Reads the whole segment if it is
   * closed, has many lines per second, and its disorder isn't remembered, as after a restart of the service.
   */
  of(segment: SegmentReader, span: SegmentSpan | undefined): number | Promise<number> {
    const open = this.openSegments.get(segment.path);
    if (open) return open.disorderMs;
    const known = this.closed.get(segment.path);
    if (known) return known;
    const isDense = span && segment.length * MAX_DISORDER_MS > FEW_BYTES * (span.last - span.first);
    return isDense ? this.measure(segment) : MAX_DISORDER_MS;
  }

  private measure(segment: SegmentReader): Promise<number> {
    const measured = segment.disorder();
    this.keep(segment.path, measured);
    // A later call measures the segment again.
    measured.catch(() => this.closed.delete(segment.path));
    return measured;
  }

  private keep(path: string, disorder: Promise<number>): void {
    if (this.closed.size >= MOST_SEGMENTS) this.closed.clear();
    this.closed.set(path, disorder);
  }
}
