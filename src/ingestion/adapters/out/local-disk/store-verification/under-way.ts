import { readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { hasCode } from '../disk-error.js';
import type { Marker } from '../pending-markers.js';

/**
 * Tells what a running service has under way, and what the next boot puts in order, from the markers in pending/
 * (see `PendingMarkers`). Only reads. Who looked at a file or line before asks afterwards, because a marker stands from
 * before its file or segment is there until its line is.
 */
export class UnderWay {
  constructor(
    /** Absolute. */
    private readonly root: string,
  ) {}

  /** Whether a file is being published. */
  async isPublished(uploadId: string, contentPath: string): Promise<boolean> {
    const marker = await this.marker(uploadId);
    return marker !== undefined && 'content_path' in marker && marker.content_path === contentPath;
  }

  /** Whether a segment is open, or its end is to be looked at by the next boot. */
  async isOpen(segment: string): Promise<boolean> {
    return (await this.segmentMarker(segment)) !== undefined;
  }

  /** Whether a line that was read is there to stay: a failed write is cut off again, now or by the next boot. */
  async stays(segment: string, lineEnd: number): Promise<boolean> {
    const marker = await this.segmentMarker(segment);
    if (marker && 'durable_length' in marker && marker.durable_length !== undefined && lineEnd > marker.durable_length) return false;
    try {
      return (await stat(join(this.root, segment))).size >= lineEnd;
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return false;
      throw error;
    }
  }

  private async segmentMarker(segment: string): Promise<Marker | undefined> {
    const marker = await this.marker(basename(segment, '.ndjson'));
    return marker?.segment === segment && !('content_path' in marker) ? marker : undefined;
  }

  private async marker(id: string): Promise<Marker | undefined> {
    try {
      return JSON.parse(await readlink(join(this.root, 'pending', id))) as Marker;
    } catch (error) {
      if (error instanceof SyntaxError || hasCode(error, 'ENOENT', 'ENOTDIR', 'EINVAL')) return undefined;
      throw error;
    }
  }
}
