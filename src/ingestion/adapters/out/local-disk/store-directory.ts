import { dirname, join } from 'node:path';
import { hasCode } from './disk-error.js';
import { ContentJournals } from './content-journals.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Disk } from './disk.js';
import { DurableDirectories } from './durable-directories.js';
import { IdempotencyKeys } from './idempotency-keys.js';
import { PendingMarkers } from './pending-markers.js';
import { SharedSyncs } from './shared-syncs.js';

/** The store's root directory, and what its parts share: the disk, durable directories, markers, journals and idempotency keys. */
export class StoreDirectory {
  readonly directories: DurableDirectories;
  readonly syncs: SharedSyncs;
  readonly markers: PendingMarkers;
  readonly journals: ContentJournals;
  readonly idempotency: IdempotencyKeys;

  constructor(
    readonly disk: Disk,
    /** Absolute. */
    readonly root: string,
    readonly logger: StorageLogger,
    /** Bytes. */
    maxJournalBytes: number,
  ) {
    this.syncs = new SharedSyncs(disk);
    this.directories = new DurableDirectories(disk, root);
    this.markers = new PendingMarkers(disk, this.directories, this.syncs, this.at('pending'));
    this.journals = new ContentJournals(this, logger, this.at('pending'), maxJournalBytes);
    this.idempotency = new IdempotencyKeys(disk, this.directories, logger, root);
  }

  /** The absolute path of one that is relative to the root. */
  at(...path: string[]): string {
    return join(this.root, ...path);
  }

  /** Removes a file so that it doesn't come back after a power cut; also resolves when there is none. */
  async removeDurably(path: string): Promise<void> {
    const absolute = this.at(path);
    await this.disk.remove(absolute);
    await this.syncs.sync(dirname(absolute)).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) throw error;
    });
  }

  /** Does what the next boot does otherwise: a failure is told and resolves. */
  async attempt(what: string, action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      this.logger.warn(`${what} failed; the next boot does it.`, error);
    }
  }
}
