import { dirname, join } from 'node:path';
import type { DataDirectoryLock } from '../../../../data-directory/data-directory-lock.js';
import { hasCode } from './disk-error.js';
import { ContentJournals } from './content-journals.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Disk } from './disk.js';
import { DurableDirectories } from './durable-directories.js';
import { IdempotencyKeys } from './idempotency-keys.js';
import { PendingMarkers } from './pending-markers.js';
import { SharedSyncs } from './shared-syncs.js';
import { StorePresence } from './store-presence.js';

/** Names in the store's root that every store has. */
export const STORE_PARTS = ['uploads', 'files', 'staging', 'pending'];

/** The store's root directory, and what its parts share: the disk, durable directories, markers, journals and idempotency keys. */
export class StoreDirectory {
  readonly presence: StorePresence;
  readonly directories: DurableDirectories;
  /** Absolute paths of the directories that are there from the boot on. */
  readonly parts: readonly string[];
  /** Where the files of uploads are; the lines' directory is known by its segment. */
  readonly contentParts: readonly string[];
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
    lock: DataDirectoryLock,
  ) {
    this.parts = STORE_PARTS.map((name) => this.at(name));
    this.contentParts = [this.at('files')];
    this.presence = new StorePresence(disk, root, this.parts, lock);
    this.syncs = new SharedSyncs(disk);
    this.directories = new DurableDirectories(disk, root, this.presence);
    this.markers = new PendingMarkers(disk, this.directories, this.syncs, this.presence, this.at('pending'));
    this.journals = new ContentJournals(this, logger, this.at('pending'), maxJournalBytes);
    this.idempotency = new IdempotencyKeys(disk, this.directories, this.presence, logger, root);
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

  /** Does what recovery does otherwise: a failure is logged and resolves. Does nothing while the store is away. */
  async attempt(what: string, action: () => Promise<void>): Promise<void> {
    try {
      this.presence.assertHere();
      await action();
    } catch (error) {
      if (!this.presence.isAway) this.logger.warn(`${what} failed; the next boot does it.`, error);
    }
  }
}
