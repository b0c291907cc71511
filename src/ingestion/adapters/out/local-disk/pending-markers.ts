import { join } from 'node:path';
import { isJsonObject } from '../../../../common/text.js';
import { isContentOf, isLayoutPath, SEGMENTS } from '../../../domain/layout-names.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { jsonOfLink, replaceLink } from './link-json.js';
import type { StorePresence } from './store-presence.js';

/** A lower bound for the position of an index line: the line begins at this position or later. */
export interface IndexPosition {
  /**
   * The path of a segment (file of index lines), relative to the store's root; it need not exist. The line is in this
   * segment, or in one of the same directory whose name sorts after this one's.
   */
  readonly segment: string;
  /** An offset in bytes. If the line is in `segment`, it begins at this offset or later. */
  readonly offset: number;
}

/**
 * Marks the file of an upload that is about to be published. The upload counts as published if its index line exists.
 */
export interface PublicationMarker extends IndexPosition {
  readonly content_path: string;
}

/** Marks a segment that may end with an incomplete or damaged line, or from which the last line was removed. */
export interface SegmentMarker {
  readonly segment: string;
  /** How many bytes to keep of a segment in which a failed write left more. */
  readonly durable_length?: number;
  /** When the last line was removed from the segment, in milliseconds since 1970. */
  readonly emptied_at?: number;
}

export type PendingMarker = PublicationMarker | SegmentMarker;

/**
 * Returns parsed JSON as a marker; undefined if it isn't a valid one for this id. Accepts only paths of the store's
 * layout, because recovery truncates, writes and removes the files that the paths name.
 */
export function asPendingMarker(id: string, data: unknown): PendingMarker | undefined {
  if (!isJsonObject(data)) return undefined;
  const { segment, offset, content_path: path, durable_length: length, emptied_at: emptiedAt } = data;
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
 * The markers of uploads and segments. Each is a symbolic link in `pending/` whose name is the marker's id and whose
 * target is JSON, so one sync of the directory makes a marker durable. Removing a marker needs no sync: if a power cut
 * brings the marker back, recovery only checks its upload or segment again.
 */
export class PendingMarkers {
  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    private readonly presence: StorePresence,
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
   * Replaces the marker with this id, if there is one. Resolves when the new marker is durable. A crash or an error may
   * leave an unfinished marker, which recovery removes.
   */
  async replace(id: string, marker: PendingMarker): Promise<void> {
    this.presence.assertHere();
    await this.directories.within(this.directory, () => replaceLink(this.disk, this.path(id), marker));
    await this.directories.sync(this.directory);
  }

  remove(id: string): Promise<void> {
    return this.disk.remove(this.path(id));
  }

  /** All names in `pending/`, sorted: including those of journals and removal lists. */
  async ids(): Promise<string[]> {
    return (await this.disk.readDirectory(this.directory)).sort();
  }

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
