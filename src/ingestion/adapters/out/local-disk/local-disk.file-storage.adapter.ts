import { resolve } from 'node:path';
import { Logger, type OnApplicationShutdown } from '@nestjs/common';
import { messageWithRootCause } from '../../../../common/error-message.js';
import type { Observer } from '../../../../common/observer.js';
import { ServiceError } from '../../../../common/service-error.js';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { MIB } from '../../../../common/sizes.js';
import { Wakeup } from '../../../../common/wakeup.js';
import type { EventOutbox } from '../../../application/ports/event-outbox.port.js';
import { FileStorage, type UploadDraft, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import type { LineQueue } from '../../../application/ports/line-queue.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { StoreAwayError } from './disk-error.js';
import type { Disk } from './disk.js';
import { makeRoot } from './durable-directories.js';
import { EVENTS } from './event-outbox/event-entries.js';
import { LocalDiskEventOutbox } from './event-outbox/local-disk.event-outbox.adapter.js';
import { NodeDisk } from './node-disk.js';
import { OpenStore, type OpenStoreOptions } from './open-store.js';
import { ensureStoreId, readStoreId } from './store-id.js';
import { StoreVolumes } from './store-volumes.js';
import type { StoredUploads } from '../../../application/ports/stored-uploads.port.js';
import { LocalDiskStoredUploads } from './stored-uploads/local-disk.stored-uploads.adapter.js';

export interface LocalDiskOptions {
  readonly directory: string;
  readonly disk?: Disk;
  /**
   * The most bytes that a segment (file of index lines) may have, unless it has a single line. Default: 64 MiB, or less
   * on a small volume.
   */
  readonly maxSegmentBytes?: number;
  /** Size of a journal (copies of small files) in bytes. At most two journals are in use. Default: 8 MiB. */
  readonly maxJournalBytes?: number;
  readonly onFlush?: (flush: IndexFlush) => void;
  /** Observes each wait of an upload for a flush: of its index line, or of a journal. */
  readonly observeWait?: Observer;
  readonly logger?: StorageLogger;
}

/**
 * Stores uploads in a directory of the local file system, to which no other process may write at the same time. If the
 * directory's volume goes away, is replaced or becomes read-only, uploads and health checks fail. When the same store
 * is back, a later call opens it again as at boot.
 */
export class LocalDiskFileStorage extends FileStorage implements LineQueue, OnApplicationShutdown {
  override readonly storedUploads: StoredUploads = new LocalDiskStoredUploads((work) => this.withStore(work));
  override readonly eventOutbox: EventOutbox;
  private current: OpenStore | undefined;
  private leaving = Promise.resolve();
  private readonly returning = new SharedProbe(() => this.comeBack());
  private closing: Promise<void> | undefined;
  private lastWarning = '';

  private constructor(
    private readonly options: OpenStoreOptions,
    private readonly storeId: string,
    private readonly volumes: StoreVolumes,
    store: OpenStore,
  ) {
    super();
    this.use(store);
    const useEvents = () => { this.volumes.add(EVENTS); };
    if (store.recordsEvents) useEvents();
    this.eventOutbox = new LocalDiskEventOutbox((work) => this.withStore(work), options.news, useEvents);
  }

  /**
   * Creates the store's root directory if it is missing, locks it, and recovers from a crash.
   *
   * @throws DataDirectoryInUseError; DataDirectoryError; StoreAwayError; an error of the file system.
   */
  static async open(options: LocalDiskOptions): Promise<LocalDiskFileStorage> {
    const { directory, disk = new NodeDisk(), maxSegmentBytes = 64 * MIB, maxJournalBytes = 8 * MIB, onFlush = () => undefined, observeWait } = options;
    const logger = options.logger ?? new Logger(LocalDiskFileStorage.name);
    const root = resolve(directory);
    await makeRoot(disk, root);
    await disk.assertWritable(root);
    const openOptions = { root, directory, disk, logger, maxSegmentBytes, maxJournalBytes, onFlush, observeWait, news: new Wakeup() };
    const store = await OpenStore.open(openOptions);
    try {
      return new LocalDiskFileStorage(openOptions, await ensureStoreId(disk, root, logger), new StoreVolumes(disk, root), store);
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  get waitingLines(): number {
    return this.current?.waitingLines ?? 0;
  }

  override store(draft: UploadDraft): Promise<UploadReceipt> {
    return this.withStore((store) => store.store(draft));
  }

  override async checkHealth(): Promise<void> {
    const store = this.current ?? (await this.cameBack());
    try {
      await store.checkHealth();
    } catch (error) {
      if (!store.whyAway) throw error;
      this.leave(store);
      // Tries to reopen the store at once: perhaps only its lock file was lost, or its device number has changed.
      await (await this.cameBack()).checkHealth();
    }
  }

  /** @throws StoreAwayError if a directory of the store isn't at its path. Unlike `checkHealth`, writes nothing. */
  assertHere(): Promise<void> {
    return this.withStore((store) => { store.assertHere(); return Promise.resolve(); });
  }

  /**
   * Finishes the uploads that are being published, refuses all others, and unlocks the directory. Idempotent.
   *
   * @throws an error of the file system if something can't be closed; the directory is unlocked even so.
   */
  close(): Promise<void> {
    this.closing ??= this.closeAll();
    return this.closing;
  }

  onApplicationShutdown(): Promise<void> {
    return this.close();
  }

  private withStore<T>(work: (store: OpenStore) => Promise<T>): Promise<T> {
    return this.current ? work(this.current) : this.cameBack().then(work);
  }

  private use(store: OpenStore): void {
    this.current = store;
    void store.away.then(() => { if (!this.isClosing()) this.leave(store); });
  }

  private async closeAll(): Promise<void> {
    await this.current?.close();
    await this.leaving;
  }

  private leave(store: OpenStore): void {
    if (this.current !== store) return;
    this.current = undefined;
    this.warnOfAbsence(store.whyAway);
    this.leaving = store.close().catch((error: unknown) => {
      this.options.logger.warn('Closing the store that went away failed.', error);
    });
  }

  private async cameBack(): Promise<OpenStore> {
    if (this.closing) throw new ServiceError('storage-failure', 'The storage is closed.');
    await this.returning.check().catch(storageFailure('The store is away.'));
    if (!this.current) throw new ServiceError('storage-failure', 'The store is away.');
    return this.current;
  }

  private isClosing(): boolean {
    return this.closing !== undefined;
  }

  private async comeBack(): Promise<void> {
    if (this.current || this.isClosing()) return;
    await this.leaving;
    const store = await this.reopen().catch((error: unknown) => {
      this.warnOfAbsence(error);
      throw error;
    });
    this.warn(`DATA_DIR ${this.options.directory} is back; uploads are accepted again.`);
    this.use(store);
    this.options.news.wake();
    if (this.isClosing()) await store.close();
  }

  private async reopen(): Promise<OpenStore> {
    const { disk, root } = this.options;
    const id = await readStoreId(disk, root);
    if (id === undefined) throw new StoreAwayError(`${root} has no store-id: put it back or mount its volume; a restart before that may begin a new store`);
    if (id !== this.storeId) throw new StoreAwayError(`${root} holds another store: put the right one back, or restart the service to use this one`);
    this.volumes.assertSame();
    const store = await OpenStore.open(this.options);
    try {
      // Without a check of the space: uploads can be removed even if there is none for others.
      await store.checkWritable();
      return store;
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  private warnOfAbsence(reason: unknown): void {
    const error = reason instanceof ServiceError && reason.cause instanceof Error ? reason.cause : reason;
    this.warn(`Uploads are refused: ${messageWithRootCause(error)}.`);
  }

  private warn(message: string): void {
    if (message !== this.lastWarning) this.options.logger.warn(message);
    this.lastWarning = message;
  }
}
