import { isDate, SEGMENTS } from '../../../../domain/layout-names.js';
import { linesDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import { hasCode, NotAFileError, unlessAbsent } from '../disk-error.js';
import type { StoreDirectory } from '../store-directory.js';
import { SegmentReader } from './segment-reader.js';

/** The segments of a store as they are on disk. Anything else in their directories is passed over. */
export class Segments {
  constructor(private readonly store: StoreDirectory) {}

  /** The UTC days (`YYYY-MM-DD`) that have lines of the given kinds, newest first. */
  async days(kinds: readonly UploadKind[] = UPLOAD_KINDS): Promise<string[]> {
    const days = new Set<string>();
    for (const kind of kinds) {
      for (const name of await this.names(linesDirectory(kind))) {
        if (name.startsWith('date=') && isDate(name.slice(5))) days.add(name.slice(5));
      }
    }
    return [...days].sort().reverse();
  }

  /** Paths of the segments of a kind and day relative to the root, in the order of their names. */
  async of(kind: UploadKind, day: string): Promise<string[]> {
    const directory = `${linesDirectory(kind)}/date=${day}`;
    return (await this.names(directory)).filter(SEGMENTS.isFile).sort().map((name) => `${directory}/${name}`);
  }

  /** Opens a segment; undefined if it was removed meanwhile, is no regular file, or has no durable line. */
  async open(path: string): Promise<SegmentReader | undefined> {
    // The length is asked for before the file is opened: a segment that is closed in between is complete.
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

  private async names(path: string): Promise<string[]> {
    try {
      return await this.store.disk.readDirectory(this.store.at(path));
    } catch (error) {
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return [];
      throw error;
    }
  }
}
