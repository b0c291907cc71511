import { UPLOAD_KINDS } from '../../../domain/upload.js';
import type { ListedSegment } from './key-entries.js';
import type { Segments, SegmentsSite } from './stored-uploads/segments.js';

const PROBED_BYTES = 4096;

export interface KeySegmentsSite extends SegmentsSite {
  readonly segments: Segments;
}

export interface SegmentToRead extends ListedSegment {
  readonly day: string;
  /** Whether this process still writes to the segment. */
  readonly isOpen: boolean;
}

/** Finds the segments from which the index of idempotency keys can be derived. */
export class KeySegments {
  constructor(
    private readonly site: KeySegmentsSite,
    /** Throws StoreAwayError if the index is closed or the store is away: then segments would look removed. */
    private readonly assertUsable: () => void,
  ) {}

  /**
   * The segments of the day `from` and later, sorted by day. Calls `onSkipped` with the relative path of each that
   * isn't a regular file (any more).
   *
   * @throws StoreAwayError; an error of the file system.
   */
  async from(from: string, onSkipped: (path: string) => void = () => undefined): Promise<SegmentToRead[]> {
    const segments: SegmentToRead[] = [];
    for (const day of await this.daysFrom(from)) {
      for (const kind of UPLOAD_KINDS) {
        const paths = await this.site.segments.of(kind, day);
        this.assertUsable();
        for (const path of paths) {
          const open = this.site.openSegments.get(path)?.durableLength;
          const length = open ?? (await this.site.disk.plainFileSize(this.site.at(path)));
          if (length === undefined) onSkipped(path);
          else segments.push({ day, path, length, isOpen: open !== undefined });
        }
      }
    }
    return segments;
  }

  /**
   * Whether the given segments can be opened. Also reads the beginning of one to which this process doesn't write, if
   * there is one: reading what this process has just written would not show that the disk fails. Never rejects.
   */
  async canRead(segments: readonly SegmentToRead[]): Promise<boolean> {
    const probed = segments.findLast(({ isOpen, length }) => !isOpen && length > 0);
    try {
      for (const each of segments) {
        const segment = await this.site.segments.open(each.path);
        try {
          if (each === probed) await segment?.read(0, Math.min(PROBED_BYTES, segment.length));
        } finally {
          await segment?.close();
        }
      }
      return true;
    } catch {
      return false;
    }
  }

  private async daysFrom(from: string): Promise<string[]> {
    const days: string[] = [];
    for (const day of await this.site.segments.days()) {
      if (day < from) break;
      days.unshift(day);
    }
    this.assertUsable();
    return days;
  }
}
