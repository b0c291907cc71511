import { isDate, SEGMENTS } from '../../../../domain/layout-names.js';
import { linesDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import { hasCode, NotAFileError, unlessAbsent } from '../disk-error.js';
import type { StoreDirectory } from '../store-directory.js';
import { SegmentReader, type SegmentSpan } from './segment-reader.js';

/** The maximum number of segments whose spans (first and last times) are remembered. A span takes about 200 bytes. */
const MOST_SPANS = 10_000;

/** Finds and opens the segments of a store on the disk. Skips anything else in their directories. */
export class Segments {
  /**
   * The spans of segments by path. A span is valid only as long as its segment has the length that is remembered with
   * it.
   */
  private readonly spans = new Map<string, { readonly length: number; readonly span: SegmentSpan | undefined }>();

  constructor(private readonly store: StoreDirectory) {}

  /** The UTC days (`YYYY-MM-DD`) that have a directory of segments for one of the given kinds, newest first. */
  async days(kinds: readonly UploadKind[] = UPLOAD_KINDS): Promise<string[]> {
    const days = new Set<string>();
    for (const kind of kinds) {
      for (const name of await this.names(linesDirectory(kind))) {
        if (name.startsWith('date=') && isDate(name.slice(5))) days.add(name.slice(5));
      }
    }
    return [...days].sort().reverse();
  }

  /** Paths of the segments of one kind and day, relative to the store's root, in the order of their names. */
  async of(kind: UploadKind, day: string): Promise<string[]> {
    const directory = `${linesDirectory(kind)}/date=${day}`;
    return (await this.names(directory)).filter(SEGMENTS.isFile).sort().map((name) => `${directory}/${name}`);
  }

  /**
   * Opens a segment to read its durable lines. Undefined if the segment was removed meanwhile, isn't a regular file, or
   * has no durable line.
   */
  async open(path: string): Promise<SegmentReader | undefined> {
    // Looks up the durable length before opening the file: a segment that isn't open by then is complete, and one that
    // is closed in between still has at least that length.
    const durableLength = this.store.openSegments.get(path)?.durableLength;
    const file = await unlessAbsent(this.store.disk.open(this.store.at(path))).catch((error: unknown) => {
      if (error instanceof NotAFileError) return undefined;
      throw error;
    });
    if (!file) return undefined;
    try {
      const length = Math.min(durableLength ?? Infinity, await file.size());
      if (length > 0) return new SegmentReader(file, path, length);
    } catch (error) {
      await file.close();
      throw error;
    }
    await file.close();
    return undefined;
  }

  /**
   * The span of a segment: the times of its first and last lines. Opens the segment only if the span isn't remembered.
   * Undefined if the segment was removed meanwhile, or its first or last line isn't valid.
   */
  async span(path: string): Promise<SegmentSpan | undefined> {
    const length = this.store.openSegments.get(path)?.durableLength ?? (await this.store.disk.plainFileSize(this.store.at(path)));
    const known = this.spans.get(path);
    if (known?.length === length) return known?.span;
    const segment = await this.open(path);
    if (!segment) return undefined;
    try {
      const span = await segment.span();
      if (this.spans.size >= MOST_SPANS) this.spans.clear();
      this.spans.set(path, { length: segment.length, span });
      return span;
    } finally {
      await segment.close();
    }
  }

  /** An upper bound for the disorder of a segment's lines, in milliseconds (see `SegmentDisorders.of`). */
  disorderOf(segment: SegmentReader, span: SegmentSpan | undefined): number | Promise<number> {
    return this.store.disorders.of(segment, span);
  }

  private async names(path: string): Promise<string[]> {
    try {
      return await this.store.disk.readDirectory(this.store.at(path));
    } catch (error) {
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return [];
      throw error;
    }
  }
}
