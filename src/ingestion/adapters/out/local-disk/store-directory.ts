import { dirname, join } from 'node:path';
import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import { hasCode, OtherVolumeError } from './disk-error.js';
import { ContentJournals } from './content-journals.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { contentDirectory, linesDirectory } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import type { Disk } from './disk.js';
import { DurableDirectories } from './durable-directories.js';
import { IdempotencyKeys } from './idempotency-keys.js';
import { PendingMarkers } from './pending-markers.js';
import { SharedSyncs } from './shared-syncs.js';
import { StorePresence } from './store-presence.js';

/** The lowest directories that every store has, relative to its root. Each may be a volume of its own. */
export const STORE_PARTS = [...UPLOAD_KINDS.flatMap((kind) => [linesDirectory(kind), contentDirectory(kind)]), 'staging', 'pending'];

/** The store's root directory, and what its parts share: the disk, durable directories, markers, journals and idempotency keys. */
export class StoreDirectory {
  readonly presence: StorePresence;
  readonly directories: DurableDirectories;
  /** Absolute paths of `STORE_PARTS`. */
  readonly parts: readonly string[];
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

  /**
   * Makes the file of an upload. It isn't durable yet.
   *
   * @param contentPath relative to the root; its directory exists.
   * @throws OtherVolumeError for a volume of its own below the kind's directory: the loss of that would go unnoticed.
   * Otherwise what the file system throws; some of the file may be there.
   */
  async makeContent(contentPath: string, bytes: Uint8Array): Promise<void> {
    const part = this.at(contentPath.split('/', 2).join('/'));
    const path = this.at(contentPath);
    try {
      await this.disk.createWith(path, bytes, this.presence.deviceOf(part));
    } catch (error) {
      throw hasCode(error, 'EXDEV') ? new OtherVolumeError(path, part) : error;
    }
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
