import { dayIn, SEGMENTS } from '../../../../domain/layout-names.js';
import { dayDirectory, linesDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import { hasCode, NotAFileError, unlessAbsent } from '../disk-error.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import type { Disk } from '../disk.js';
import type { LineTimes } from './line-times.js';
import { MAX_DISORDER_MS, SegmentReader, type SegmentSpan } from './segment-reader.js';

/**
 * The maximum number of segments whose spans (first and last times) are remembered, and of segments for whose times
 * bounds are remembered. Beyond it, all are forgotten. An entry takes about 200 bytes.
 */
const MAX_SEGMENTS = 10_000;
/**
 * For a page of the list, the disorder of a segment is measured only if more than this many bytes of its lines, on
 * average, were received in MAX_DISORDER_MS. Reading fewer than that for each page costs less than reading the whole
 * segment once.
 */
const DENSE_BYTES = 1024 * 1024;
/** The maximum number of directories for which the names in them are remembered. Beyond it, all are forgotten. */
const MAX_DIRECTORIES = 1_000;
/**
 * The names in a directory are remembered only if the directory's last change was longer ago than this, in nanoseconds.
 * The clock of a file system is coarse: a further change soon after the last one could get the same time, and would go
 * unnoticed.
 */
const SETTLED_NS = 5_000_000_000n;

/** A segment (a file of index lines) that this process still writes to. */
export interface OpenSegment {
  /** Path of the segment, relative to the store's root. */
  readonly path: string;
  /** The length of the segment's durable lines, in bytes. */
  readonly durableLength: number;
  /** When the uploads of the first and the last durable line were received; undefined without a durable line. */
  readonly span: SegmentSpan | undefined;
  readonly times: Readonly<LineTimes>;
}

/** The services of a store that `Segments` uses. */
export interface SegmentsSite {
  readonly disk: Disk;
  /**
   * The segments that this process writes to, by path. A segment is put into the map before its file is created.
   */
  readonly openSegments: ReadonlyMap<string, OpenSegment>;
  /** The absolute path for a path that is relative to the store's root. */
  at(path: string): string;
}

/**
 * Finds and opens the segments on the disk. Skips anything else in their directories.
 *
 * Remembers bounds for the times of a segment's lines (`LineTimes`): those of the segments that this process has
 * written, and of others once they were measured. Two readings depend on them:
 *
 * - A page of the list must be read back as far as lines may be out of order, mostly a few milliseconds. If
 *   MAX_DISORDER_MS were assumed, each page of a busy service would read the lines of ten seconds.
 * - An upload's line is found from the time at which the upload began, which is in its id. If it isn't known how long
 *   an upload took at most, an id that nobody has costs reading the lines of the 24 hours after that time.
 */
export class Segments {
  /**
   * The spans of closed segments by path. After a removal, a span may be wider than the times of the lines that are
   * left. It is still a correct bound.
   */
  private readonly spans = new Map<string, SegmentSpan | undefined>();
  /** Bounds for the times of the lines of closed segments, by path. */
  private readonly times = new Map<string, Promise<Readonly<LineTimes>>>();
  /** The names in directories, sorted, by the path of the directory. They are valid until the directory changes. */
  private readonly names = new Map<string, { readonly changedAt: bigint; readonly names: readonly string[] }>();

  constructor(private readonly store: SegmentsSite) {}

  /** The UTC days (`YYYY-MM-DD`) that have a directory of segments for one of the given kinds, newest first. */
  async days(kinds: readonly UploadKind[] = UPLOAD_KINDS): Promise<Iterable<string>> {
    const names = await Promise.all(kinds.map((kind) => this.namesIn(linesDirectory(kind))));
    return daysOf(names);
  }

  /** Paths of the segments of one kind and day, relative to the store's root, in the order of their names. */
  async of(kind: UploadKind, day: string): Promise<string[]> {
    const directory = dayDirectory(kind, day);
    return (await this.namesIn(directory)).filter(SEGMENTS.isFile).map((name) => `${directory}/${name}`);
  }

  /**
   * Opens a segment to read its durable lines. Undefined if the segment was removed meanwhile, isn't a regular file, or
   * has no durable line.
   *
   * @param memory where the reader takes memory for long lines (see `SegmentReader`).
   */
  async open(path: string, memory?: LineMemory): Promise<SegmentReader | undefined> {
    // The durable length is looked up before the file is opened. If the segment isn't among the open ones, its whole
    // file is durable. If it is closed in between, at least this length is.
    const durableLength = this.store.openSegments.get(path)?.durableLength;
    const file = await unlessAbsent(this.store.disk.open(this.store.at(path))).catch((error: unknown) => {
      if (error instanceof NotAFileError) return undefined;
      throw error;
    });
    if (!file) return undefined;
    try {
      const length = Math.min(durableLength ?? Infinity, await file.size());
      if (length > 0) return new SegmentReader(file, path, length, memory);
    } catch (error) {
      await file.close();
      throw error;
    }
    await file.close();
    return undefined;
  }

  /**
   * The span of a segment: the times of its first and last lines. Reads them only if the segment is closed, and its
   * span isn't remembered. Undefined if the segment was removed meanwhile, isn't a regular file or has no durable line,
   * or its first or last line isn't valid.
   */
  async span(path: string): Promise<SegmentSpan | undefined> {
    const open = this.store.openSegments.get(path);
    if (open) return open.span;
    if (this.spans.has(path)) return this.spans.get(path);
    const segment = await this.open(path);
    if (!segment) return undefined;
    try {
      const span = await segment.span();
      remember(this.spans, path, span);
      return span;
    } finally {
      await segment.close();
    }
  }

  /**
   * Remembers the `LineTimes` of a segment that gets no more lines: bounds for the time of its newest line, for how far
   * its lines are out of order, and for how long an upload took.
   */
  rememberTimes(path: string, times: Readonly<LineTimes>): void {
    remember(this.times, path, Promise.resolve(times));
  }

  /**
   * An upper bound for the disorder of a segment's durable lines, in milliseconds. If bounds for its times aren't
   * known, as after a restart of the service, reads the whole segment if it is dense (see DENSE_BYTES), and otherwise
   * returns MAX_DISORDER_MS.
   */
  async disorderOf(segment: SegmentReader, span: SegmentSpan | undefined): Promise<number> {
    const isDense = span && segment.length * MAX_DISORDER_MS > DENSE_BYTES * (span.last - span.first);
    const times = this.knownTimes(segment.path) ?? (isDense && this.measure(segment));
    return times ? (await times).disorderMs : MAX_DISORDER_MS;
  }

  /**
   * How long the upload of a durable line of a segment took at most, in milliseconds. Reads the whole segment if that
   * isn't known, as after a restart of the service. Infinity if one of its lines isn't valid. 0 if the segment was
   * removed meanwhile, isn't a regular file, or has no durable line.
   */
  async longestOf(path: string): Promise<number> {
    const known = this.knownTimes(path);
    if (known) return (await known).longestMs;
    const segment = await this.open(path);
    if (!segment) return 0;
    try {
      return (await this.measure(segment)).longestMs;
    } finally {
      await segment.close();
    }
  }

  private knownTimes(path: string): Readonly<LineTimes> | Promise<Readonly<LineTimes>> | undefined {
    return this.store.openSegments.get(path)?.times ?? this.times.get(path);
  }

  private measure(segment: SegmentReader): Promise<Readonly<LineTimes>> {
    const measured = segment.times();
    remember(this.times, segment.path, measured);
    // After a failure, a later call measures the segment again.
    measured.catch(() => this.times.delete(segment.path));
    return measured;
  }

  private async namesIn(path: string): Promise<readonly string[]> {
    const now = BigInt(Date.now()) * 1_000_000n;
    const changedAt = this.store.disk.changedAt(this.store.at(path));
    if (changedAt === undefined) return [];
    const known = this.names.get(path);
    if (known?.changedAt === changedAt) return known.names;
    const names = (await this.readNames(path)).sort();
    if (now - changedAt > SETTLED_NS) {
      if (this.names.size >= MAX_DIRECTORIES) this.names.clear();
      this.names.set(path, { changedAt, names });
    }
    return names;
  }

  private async readNames(path: string): Promise<string[]> {
    try {
      return await this.store.disk.readDirectory(this.store.at(path));
    } catch (error) {
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return [];
      throw error;
    }
  }
}

function remember<Value>(values: Map<string, Value>, path: string, value: Value): void {
  if (values.size >= MAX_SEGMENTS) values.clear();
  values.set(path, value);
}

/**
 * Yields the days after which the directories are named, newest first. Lazy: there may be thousands of names, and
 * callers mostly need the first.
 *
 * @param lists the names of directories, sorted, each without duplicates.
 */
function* daysOf(lists: readonly (readonly string[])[]): Generator<string> {
  const left = lists.map((names) => ({ names, last: names.length - 1 }));
  for (;;) {
    const newest = left.reduce((name, { names, last }) => maximum(name, names[last] ?? ''), '');
    if (newest === '') return;
    for (const list of left) if (list.names[list.last] === newest) list.last -= 1;
    const day = dayIn(newest);
    if (day !== undefined) yield day;
  }
}

const maximum = (one: string, other: string): string => (one > other ? one : other);
