import { hasCode } from '../../../../../common/error-code.js';
import { MIB } from '../../../../../common/sizes.js';
import { dayIn, SEGMENTS } from '../../../../domain/layout-names.js';
import { dayDirectory, linesDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import { NotAFileError, unlessAbsent } from '../disk-error.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import type { Disk } from '../disk.js';
import type { LineTimes } from './line-times.js';
import { MAX_DISORDER_MS, SegmentReader, type SegmentSpan } from './segment-reader.js';

/** How many segments are remembered at most. An entry takes about 200 bytes. */
const MAX_SEGMENTS = 10_000;
/**
 * The disorder of a segment (see `LineTimes.disorderMs`) is measured only if more bytes than this, on average, were
 * received in MAX_DISORDER_MS. Reading fewer for each page costs less than reading the whole segment once.
 */
const DENSE_BYTES = MIB;
const MAX_DIRECTORIES = 1_000;
/**
 * The names in a directory are remembered only if its last change was longer ago than this. The clock of a file system
 * is coarse: a second change soon after the first could get the same time, and go unnoticed.
 */
const SETTLED_NS = 5_000_000_000n;

/** A segment (a file of index lines) that this process still writes to. */
export interface OpenSegment {
  readonly path: string;
  readonly durableLength: number;
  readonly span: SegmentSpan | undefined;
  readonly times: Readonly<LineTimes>;
}

export interface SegmentsSite {
  readonly disk: Disk;
  /** The open segments by path. A segment is put into the map before its file is created. */
  readonly openSegments: ReadonlyMap<string, OpenSegment>;
  at(path: string): string;
}

/**
 * Finds and opens the segments (files of index lines) on the disk. Skips anything else in their directories.
 *
 * Remembers bounds for the times of the lines. Without these bounds, each page of a busy service would read the lines
 * of MAX_DISORDER_MS, and a search for an unknown id the lines of 24 hours.
 */
export class Segments {
  /** After a removal, a span may be wider than the times of the remaining lines, but is still a correct bound. */
  private readonly spans = new Map<string, SegmentSpan | undefined>();
  private readonly times = new Map<string, Promise<Readonly<LineTimes>>>();
  private readonly names = new Map<string, { readonly changedAt: bigint; readonly names: readonly string[] }>();

  constructor(private readonly store: SegmentsSite) {}

  /** The UTC days (`YYYY-MM-DD`) that have a directory of segments for one of the given kinds, newest first. */
  async days(kinds: readonly UploadKind[] = UPLOAD_KINDS): Promise<Iterable<string>> {
    const names = await Promise.all(kinds.map((kind) => this.namesIn(linesDirectory(kind))));
    return daysOf(names);
  }

  async of(kind: UploadKind, day: string): Promise<string[]> {
    const directory = dayDirectory(kind, day);
    return (await this.namesIn(directory)).filter(SEGMENTS.isFile).map((name) => `${directory}/${name}`);
  }

  /** Opens a segment to read its durable lines; undefined if it has none, is missing, or isn't a regular file. */
  async open(path: string, memory?: LineMemory): Promise<SegmentReader | undefined> {
    // The durable length is looked up before the file is opened. Without one, the segment isn't open, and its whole
    // file is durable. If the segment is closed in between, at least the length that was looked up is durable.
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

  /** The times of a segment's first and last durable lines; undefined if there are none, or one of them isn't valid. */
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

  rememberTimes(path: string, times: Readonly<LineTimes>): void {
    remember(this.times, path, Promise.resolve(times));
  }

  /** An upper bound for the disorder of a segment's durable lines, in milliseconds. May read the whole segment. */
  async disorderOf(segment: SegmentReader, span: SegmentSpan | undefined): Promise<number> {
    const isDense = span && segment.length * MAX_DISORDER_MS > DENSE_BYTES * (span.last - span.first);
    const times = this.knownTimes(segment.path) ?? (isDense && this.measure(segment));
    return times ? (await times).disorderMs : MAX_DISORDER_MS;
  }

  /**
   * How long the upload of a durable line took at most, in milliseconds; Infinity if a line isn't valid. May read the
   * whole segment.
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

/** The days among sorted lists of names, newest first. Lazy: callers mostly need the first of maybe thousands. */
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
