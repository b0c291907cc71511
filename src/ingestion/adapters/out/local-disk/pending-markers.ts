import { basename, join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { CONTENT, isLayoutPath, SEGMENTS, uploadIdOfFile } from '../../../domain/layout-names.js';
import { hasCode } from './disk-error.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import type { SharedSyncs } from './shared-syncs.js';
import type { StorePresence } from './store-presence.js';

/** A position in the index before which a line can't be. */
export interface IndexPosition {
  /** A segment's path, relative to the root; lines may be in it, or in one that sorts behind it. */
  readonly segment: string;
  /** Bytes from that segment's beginning. */
  readonly offset: number;
}

/** A file is about to be published; whether it was, its index line tells. The marker's id is the upload's. */
export interface PublicationMarker extends IndexPosition {
  readonly content_path: string;
}

/** A segment may have a torn end. The marker's id is the segment's. */
export interface SegmentMarker {
  /** Its path, relative to the root. */
  readonly segment: string;
  /** Bytes to keep of it, where a failed write left more. */
  readonly durable_length?: number;
}

export type Marker = PublicationMarker | SegmentMarker;

/**
 * Data as the marker of an id; undefined when it is none. Its paths are those of the layout, since recovery truncates,
 * writes and removes what they name.
 */
export function asMarker(id: string, data: unknown): Marker | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const { segment, offset, content_path: path, durable_length: length } = data as Partial<Record<string, unknown>>;
  if (typeof segment !== 'string' || !isLayoutPath(segment, SEGMENTS)) return undefined;
  if (path === undefined) return length === undefined || isLength(length) ? { segment, ...(isLength(length) && { durable_length: length }) } : undefined;
  const isPublication = typeof path === 'string' && isLayoutPath(path, CONTENT) && uploadIdOfFile(basename(path)) === id && isLength(offset);
  return isPublication ? { content_path: path, segment, offset } : undefined;
}

const isLength = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/**
 * What is under way, for the next boot to find: one symbolic link in `pending/` each, whose target is JSON.
 * A link's text comes with its name, so that one sync of the directory makes both durable. Removals need no sync:
 * a marker that comes back after a power cut tells nothing wrong.
 */
export class PendingMarkers {
  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    private readonly syncs: SharedSyncs,
    private readonly presence: StorePresence,
    /** Absolute. */
    private readonly directory: string,
  ) {}

  /** Resolves when the marker is durable. @throws StoreAwayError; what the file system throws. */
  async add(id: string, marker: Marker): Promise<void> {
    this.presence.assertHere();
    await this.directories.within(this.directory, () => this.disk.link(JSON.stringify(marker), this.path(id)));
    await this.syncs.sync(this.directory);
  }

  /** Resolves when the new marker is durable; the old one stands until then. */
  async replace(id: string, marker: Marker): Promise<void> {
    this.presence.assertHere();
    const replacement = this.path(uuidV7());
    await this.directories.within(this.directory, () => this.disk.link(JSON.stringify(marker), replacement));
    await this.disk.rename(replacement, this.path(id));
    await this.syncs.sync(this.directory);
  }

  /** Idempotent. */
  remove(id: string): Promise<void> {
    return this.disk.remove(this.path(id));
  }

  async ids(): Promise<string[]> {
    return (await this.disk.readDirectory(this.directory)).sort();
  }

  /** Undefined for anything but a marker of the store. */
  async read(id: string): Promise<Marker | undefined> {
    try {
      return asMarker(id, JSON.parse(await this.disk.readLink(this.path(id))));
    } catch (error) {
      // ENOENT: its name isn't UTF-8.
      if (error instanceof SyntaxError || hasCode(error, 'EINVAL', 'ENOENT')) return undefined;
      throw error;
    }
  }

  sync(): Promise<void> {
    return this.syncs.sync(this.directory);
  }

  private path(id: string): string {
    return join(this.directory, id);
  }
}
