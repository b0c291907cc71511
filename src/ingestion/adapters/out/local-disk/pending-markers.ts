import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { isContentOf, isLayoutPath, SEGMENTS } from '../../../domain/layout-names.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { jsonOfLink } from './link-json.js';
import type { StorePresence } from './store-presence.js';

/** A lower bound for the position of an index line: the line is there or later. */
export interface IndexPosition {
  /**
   * Path of a segment (a file of index lines), relative to the store's root. The line is in this segment, or in a
   * segment of the same directory whose name sorts after this one's. There may be no segment at this path.
   */
  readonly segment: string;
  /** Offset in `segment`, in bytes. If the line is in `segment`, the line begins at this offset or later. */
  readonly offset: number;
}

/**
 * Marks the file of an upload that is about to be published. The file counts as published if the upload's index line
 * exists; the position is a lower bound for where that line is. The marker's id is the upload's id.
 */
export interface PublicationMarker extends IndexPosition {
  readonly content_path: string;
}

/**
 * Marks a segment that may end with an incomplete or damaged line, or from which the last line was removed. The
 * marker's id is the id in the segment's name; in the latter case with `EMPTIED_EXTENSION` behind it.
 */
export interface SegmentMarker {
  /** Path of the segment, relative to the store's root. */
  readonly segment: string;
  /**
   * How many bytes of the segment to keep, if a failed write left more. Undefined if recovery must find out by itself
   * where incomplete or damaged lines begin, and for a segment from which the last line was removed.
   */
  readonly durable_length?: number;
  /**
   * When the last line was removed from the segment, in milliseconds since 1970. Undefined for a segment that may end
   * with an incomplete or damaged line.
   */
  readonly emptied_at?: number;
}

export type PendingMarker = PublicationMarker | SegmentMarker;

/**
 * Returns parsed JSON as the marker with the given id. Undefined if the data isn't a valid marker, or if it names the
 * file of another upload. Accepts only paths of the store's layout, because recovery truncates, writes and removes the
 * files that the paths name.
 */
export function asPendingMarker(id: string, data: unknown): PendingMarker | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const { segment, offset, content_path: path, durable_length: length, emptied_at: emptiedAt } = data as Partial<Record<string, unknown>>;
  if (typeof segment !== 'string' || !isLayoutPath(segment, SEGMENTS)) return undefined;
  if (path === undefined) {
    if (length !== undefined && !isCount(length)) return undefined;
    return { segment, ...(isCount(length) && { durable_length: length }), ...(isCount(emptiedAt) && { emptied_at: emptiedAt }) };
  }
  const isPublication = typeof path === 'string' && isContentOf(id, path) && isCount(offset);
  return isPublication ? { content_path: path, segment, offset } : undefined;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/**
 * The markers of uploads and segments, mainly for recovery. Each marker is a symbolic link in `pending/` whose name is
 * the marker's id and whose target is JSON. A link's target is stored with its name, so one sync of the directory makes
 * both durable. Removing a marker needs no sync: if a power cut brings the marker back, recovery only checks its upload
 * or segment again.
 */
export class PendingMarkers {
  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    private readonly presence: StorePresence,
    /** Absolute path of `pending/`, the directory of the markers. */
    readonly directory: string,
  ) {}

  /**
   * Adds a marker. Resolves when the marker is durable.
   *
   * @throws StoreAwayError; an error of the file system.
   */
  async add(id: string, marker: PendingMarker): Promise<void> {
    this.presence.assertHere();
    await this.directories.within(this.directory, () => this.disk.link(JSON.stringify(marker), this.path(id)));
    await this.directories.sync(this.directory);
  }

  /**
   * Adds a marker in place of the one with the same id, if there is one. Resolves when the new marker is durable. Until
   * then, either the old or the new marker is in place. A crash or an error may leave the new marker in `pending/`
   * under another name, too.
   */
  async replace(id: string, marker: PendingMarker): Promise<void> {
    this.presence.assertHere();
    const replacement = this.path(uuidV7());
    await this.directories.within(this.directory, () => this.disk.link(JSON.stringify(marker), replacement));
    await this.disk.rename(replacement, this.path(id));
    await this.directories.sync(this.directory);
  }

  /** Removes a marker. Also resolves if the marker is missing. */
  remove(id: string): Promise<void> {
    return this.disk.remove(this.path(id));
  }

  /** All names in `pending/`, sorted: not only ids of markers, but also others, such as names of journals. */
  async ids(): Promise<string[]> {
    return (await this.disk.readDirectory(this.directory)).sort();
  }

  /** The marker with an id; undefined if no name in `pending/` is that id, or the name isn't that of a valid marker. */
  async read(id: string): Promise<PendingMarker | undefined> {
    return asPendingMarker(id, await jsonOfLink(this.disk.readLink(this.path(id))));
  }

  sync(): Promise<void> {
    return this.directories.sync(this.directory);
  }

  private path(id: string): string {
    return join(this.directory, id);
  }
}
