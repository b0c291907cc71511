import { dirname } from 'node:path';
import type { PendingMarker } from './pending-markers.js';
import type { StoreDirectory } from './store-directory.js';
import type { RemovalList } from './stored-uploads/removal-list.js';

/**
 * Detects symbolic links that lead out of the store: the directory of each path must be in its part of the store
 * (`uploads/kind=...` or `files/kind=...`), or missing. The part itself may be a link.
 */
export class LinkCheck {
  private readonly known = new Map<string, Promise<boolean>>();

  constructor(private readonly store: StoreDirectory) {}

  async staysInside(marker: PendingMarker): Promise<boolean> {
    const isSegmentInside = await this.isInside(dirname(marker.segment));
    return isSegmentInside && (!('content_path' in marker) || (await this.isInside(dirname(marker.content_path))));
  }

  async keepsInside({ segment, uploads }: RemovalList): Promise<boolean> {
    const directories = new Set([segment, ...uploads.flatMap(({ contentPath }) => contentPath ?? [])].map((path) => dirname(path)));
    for (const directory of directories) if (!(await this.isInside(directory))) return false;
    return true;
  }

  private isInside(directory: string): Promise<boolean> {
    const { store, known } = this;
    const answer = known.get(directory) ?? store.disk.isBelow(store.at(directory), store.partOf(directory));
    known.set(directory, answer);
    return answer;
  }
}
