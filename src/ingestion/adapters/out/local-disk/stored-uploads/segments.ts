import { isDate, SEGMENTS } from '../../../../domain/layout-names.js';
import { linesDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import { hasCode, NotAFileError, unlessAbsent } from '../disk-error.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import type { StoreDirectory } from '../store-directory.js';
import { SegmentReader, type SegmentSpan } from './segment-reader.js';

/** The maximum number of segments whose spans (first and last times) are remembered. A span takes about 200 bytes. */
const MOST_SPANS = 10_000;
const DAY_BEGIN = 'date=';
/** The maximum number of directories whose names are remembered. */
const MOST_DIRECTORIES = 1_000;
/**
 * The names in a directory are remembered only if the directory didn't change in this many nanoseconds before. Changes
 * shortly after each other may get the same time, as the clock of a file system is coarse.
 */
const SETTLED_NS = 5_000_000_000n;

/** Finds and opens the segments (files of index lines) on the disk. Skips anything else in their directories. */
export class Segments {
  /**
   * The spans of closed segments by path. After a removal, a span may be longer than the times of the lines that are
   * left, which is still a correct bound.
   */
  private readonly spans = new Map<string, SegmentSpan | undefined>();

  /** The names in directories, sorted, by the path of the directory. They are valid until the directory changes. */
  private readonly names = new Map<string, { readonly changedAt: bigint; readonly names: readonly string[] }>();

  constructor(private readonly store: StoreDirectory) {}

  /** The UTC days (`YYYY-MM-DD`) that have a directory of segments for one of the given kinds, newest first. */
  async days(kinds: readonly UploadKind[] = UPLOAD_KINDS): Promise<Iterable<string>> {
    const names = await Promise.all(kinds.map((kind) => this.namesIn(linesDirectory(kind))));
    return daysOf(names);
  }

  /** Paths of the segments of one kind and day, relative to the store's root, in the order of their names. */
  async of(kind: UploadKind, day: string): Promise<string[]> {
    const directory = `${linesDirectory(kind)}/date=${day}`;
    return (await this.namesIn(directory)).filter(SEGMENTS.isFile).map((name) => `${directory}/${name}`);
  }

  /**
   * Opens a segment to read its durable lines. Undefined if the segment was removed meanwhile, isn't a regular file, or
   * has no durable line.
   *
   * @param memory where the reader takes memory for long lines (see `SegmentReader`).
   */
  async open(path: string, memory?: LineMemory): Promise<SegmentReader | undefined> {
    // Looked up before the file is opened. If the segment isn't among the open ones, its whole file is durable. If it
    // is closed in between, at least this length is durable.
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
   * The span of a segment: the times of its first and last lines. Reads them only if the segment is closed, and its span
   * isn't remembered. Undefined if the segment was removed meanwhile, or its first or last line isn't valid.
   */
  async span(path: string): Promise<SegmentSpan | undefined> {
    const open = this.store.openSegments.get(path);
    if (open) return open.span;
    if (this.spans.has(path)) return this.spans.get(path);
    const segment = await this.open(path);
    if (!segment) return undefined;
    try {
      const span = await segment.span();
      if (this.spans.size >= MOST_SPANS) this.spans.clear();
      this.spans.set(path, span);
      return span;
    } finally {
      await segment.close();
    }
  }

  /** An upper bound for the disorder of a segment's lines, in milliseconds (see `SegmentDisorders.of`). */
  disorderOf(segment: SegmentReader, span: SegmentSpan | undefined): number | Promise<number> {
    return this.store.disorders.of(segment, span);
  }

  private async namesIn(path: string): Promise<readonly string[]> {
    const now = BigInt(Date.now()) * 1_000_000n;
    const changedAt = this.store.disk.changedAt(this.store.at(path));
    if (changedAt === undefined) return [];
    const known = this.names.get(path);
    if (known?.changedAt === changedAt) return known.names;
    const names = (await this.readNames(path)).sort();
    if (now - changedAt > SETTLED_NS) {
      if (this.names.size >= MOST_DIRECTORIES) this.names.clear();
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

/**
 * The days that directories are named after, newest first. Looks at a name only when its day is asked for, because there
 * may be thousands, and a caller mostly needs the first.
 *
 * @param lists the names of directories, sorted, each without duplicates.
 */
function* daysOf(lists: readonly (readonly string[])[]): Generator<string> {
  const left = lists.map((names) => ({ names, last: names.length - 1 }));
  for (;;) {
    const newest = left.reduce((name, { names, last }) => maximum(name, names[last] ?? ''), '');
    if (newest === '') return;
    for (const list of left) if (list.names[list.last] === newest) list.last -= 1;
    const day = newest.slice(DAY_BEGIN.length);
    if (newest.startsWith(DAY_BEGIN) && isDate(day)) yield day;
  }
}

const maximum = (one: string, other: string): string => (one > other ? one : other);
