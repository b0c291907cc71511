import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { hasCode } from './disk-error.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import type { SharedSyncs } from './shared-syncs.js';

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
 * What is under way, for the next boot to find: one symbolic link in `pending/` each, whose target is JSON.
 * A link's text comes with its name, so that one sync of the directory makes both durable. Removals need no sync:
 * a marker that comes back after a power cut tells nothing wrong.
 */
export class PendingMarkers {
  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    private readonly syncs: SharedSyncs,
    /** Absolute. */
    private readonly directory: string,
  ) {}

  /** Resolves when the marker is durable. */
  async add(id: string, marker: Marker): Promise<void> {
    await this.directories.within(this.directory, () => this.disk.link(JSON.stringify(marker), this.path(id)));
    await this.syncs.sync(this.directory);
  }

  /** Resolves when the new marker is durable; the old one stands until then. */
  async replace(id: string, marker: Marker): Promise<void> {
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

  /** Undefined for a name that is no marker. */
  async read(id: string): Promise<Marker | undefined> {
    try {
      return JSON.parse(await this.disk.readLink(this.path(id))) as Marker;
    } catch (error) {
      if (error instanceof SyntaxError || hasCode(error, 'EINVAL')) return undefined;
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
