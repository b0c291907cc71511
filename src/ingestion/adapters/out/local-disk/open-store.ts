import { hash } from 'node:crypto';
import { basename } from 'node:path';
import { observeMethods, type Observer } from '../../../../common/observer.js';
import { ServiceError } from '../../../../common/service-error.js';
import type { Wakeup } from '../../../../common/wakeup.js';
import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import { behindHead, readHead, type StreamHead } from '../../../../common/stream-head.js';
import { readContent } from '../../../application/content.js';
import type { UploadDraft, UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { encodeIndexLine, segmentDirectory } from '../../../domain/layout.js';
import { type Upload, UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';
import { JournalUnavailableError } from './content-journals.js';
import type { StoreAwayError } from './disk-error.js';
import { closeQuietly, type Disk } from './disk.js';
import { EventQueue } from './event-outbox/event-queue.js';
import { HealthProbe } from './health-probe.js';
import { IndexLog, type IndexLogOptions } from './index-log.js';
import { type Publication, publishSmall, publishStaged, type StagedFile } from './publication.js';
import { recover, replayJournal } from './recovery.js';
import { writeStagedFile } from './staged-file.js';
import { StoreDirectory } from './store-directory.js';
import { Archive } from './stored-uploads/archive.js';

/** A file of at most this many bytes is written to a journal, if one is available. */
const MAX_SMALL_BYTES = 16 * 1024;
const MAX_WHOLE_BYTES = 64 * 1024;
/** With less space than a small upload needs, the store isn't healthy: it could refuse all uploads. */
const SMALL_UPLOAD_BYTES = 64 * 1024;

export interface OpenStoreOptions extends IndexLogOptions {
  /** Absolute path of the root directory, which must exist. */
  readonly root: string;
  /** The root directory as the user wrote it, for messages and for the lock. */
  readonly directory: string;
  readonly disk: Disk;
  readonly logger: StorageLogger;
  readonly maxJournalBytes: number;
  readonly observeWait: Observer | undefined;
  /** Wakes the event outbox when index lines were added or uploads were removed. */
  readonly news: Wakeup;
}

/**
 * A store from when its lock is taken until it is closed or goes away. When it comes back, it is opened as a new
 * instance.
 */
export class OpenStore {
  private readonly logs: Record<UploadKind, IndexLog>;
  private readonly health: HealthProbe;
  private readonly staging: string;
  private readonly finishing = new Set<Promise<void>>();
  readonly archive: Archive;
  readonly events: EventQueue;
  private everySegmentHasEvents: boolean;
  private closing: Promise<void> | undefined;

  private constructor(
    private readonly directory: StoreDirectory,
    private readonly lock: DataDirectoryLock,
    { observeWait, ...options }: OpenStoreOptions,
  ) {
    this.logs = { historical: new IndexLog(directory, options), nowcast: new IndexLog(directory, options) };
    this.health = new HealthProbe(directory);
    this.staging = directory.at('staging');
    this.archive = new Archive(directory, (purge, rotate) => this.settle(purge, rotate), MAX_SMALL_BYTES);
    this.events = new EventQueue(directory);
    this.everySegmentHasEvents = directory.events.isBegun;
    if (!observeWait) return;
    for (const log of Object.values(this.logs)) observeMethods(log, observeWait, { append: 'wait for the index' });
    observeMethods(directory.journals, observeWait, { add: 'wait for a journal' });
  }

  /**
   * Takes the lock of the root directory, creates the store's parts, and recovers from a crash.
   *
   * @throws DataDirectoryInUseError; DataDirectoryError; StoreAwayError; an error of the file system.
   */
  static async open(options: OpenStoreOptions): Promise<OpenStore> {
    const { disk, root, logger, maxJournalBytes, news } = options;
    const lock = await disk.lock(options.directory, 'uploads');
    const directory = new StoreDirectory(disk, root, logger, maxJournalBytes, lock, news);
    try {
      for (const part of directory.parts) {
        await directory.directories.ensure(part);
        await disk.assertWritable(part);
      }
      directory.presence.watchParts();
      await directory.events.find();
      directory.presence.assertHere();
      await recover(directory);
      await directory.reserve.watch();
    } catch (error) {
      await directory.idempotency.close().catch(() => undefined);
      lock.release();
      throw error;
    }
    return new OpenStore(directory, lock, options);
  }

  get whyAway(): StoreAwayError | undefined {
    return this.directory.presence.whyAway;
  }

  /** Resolves when the store is found to be away. */
  get away(): Promise<void> {
    return this.directory.presence.away;
  }

  get waitingLines(): number {
    return this.logs.historical.waitingLines + this.logs.nowcast.waitingLines;
  }

  store(draft: UploadDraft): Promise<UploadReceipt> {
    return draft.idempotencyScope === null ? this.keep(draft) : this.keepOnce(draft, draft.idempotencyScope);
  }

  /** @throws StoreAwayError if a directory of the store isn't at its path. */
  assertHere(): void {
    this.directory.presence.assertHere();
  }

  /** @throws ServiceError `storage-failure`, including when there is no space for uploads. */
  async checkHealth(): Promise<void> {
    await this.checkWritable();
    if (this.directory.reserve.left < SMALL_UPLOAD_BYTES) this.directory.reserve.refuse();
  }

  /** @throws ServiceError `storage-failure`. */
  async checkWritable(): Promise<void> {
    this.assertNotClosed();
    await this.health.check();
  }

  /**
   * Finishes the uploads that are being published, refuses all others, and unlocks the root directory, even if `close`
   * rejects. Stops a removal before its next segment. Idempotent.
   */
  close(): Promise<void> {
    this.closing ??= this.finishAll();
    return this.closing;
  }

  /** Whether every upload that is acknowledged from now on gets an event in the outbox. */
  get recordsEvents(): boolean {
    return this.everySegmentHasEvents;
  }

  /** Starts the recording of events. Every upload acknowledged after `beginEvents` has resolved gets an event. */
  async beginEvents(): Promise<void> {
    if (this.everySegmentHasEvents) return;
    await this.directory.events.begin();
    await this.rotate(UPLOAD_KINDS);
    this.everySegmentHasEvents = true;
  }

  private async keepOnce(draft: UploadDraft, scope: string): Promise<UploadReceipt> {
    const { content } = draft;
    const read = async () => draft.conclude(content && (await readContent(content.bytes)));
    this.assertNotClosed();
    return this.directory.idempotency.once(scope, () => this.keep(draft), read);
  }

  private async keep(draft: UploadDraft): Promise<Upload> {
    const { kind, content } = draft;
    if (!content) {
      const upload = await draft.conclude(null);
      const line = await encodeIndexLine(upload);
      await this.finish(() => this.logs[kind].append(segmentDirectory(kind, upload.receivedAt), upload, line));
      return upload;
    }
    const head = await readHead(content.bytes, MAX_WHOLE_BYTES);
    return head.rest ? this.keepLarge(draft, content.path, head) : this.keepWhole(draft, content.path, Buffer.concat(head.chunks));
  }

  private async keepWhole(draft: UploadDraft, contentPath: string, bytes: Buffer): Promise<Upload> {
    const upload = await draft.conclude({ size: bytes.length, sha256: hash('sha256', bytes) });
    const publication = publicationOf(upload, contentPath, await encodeIndexLine(upload));
    await this.finish(() => this.publishWhole(this.logs[draft.kind], bytes, publication));
    return upload;
  }

  private async publishWhole(log: IndexLog, bytes: Buffer, publication: Publication): Promise<void> {
    const { reserve } = this.directory;
    if (bytes.length > reserve.left || reserve.filesLeft < 1) reserve.refuse();
    reserve.left -= bytes.length;
    if (bytes.length <= MAX_SMALL_BYTES) {
      reserve.filesLeft -= 1;
      try {
        await publishSmall(this.directory, log, bytes, publication);
        return;
      } catch (error) {
        if (!(error instanceof JournalUnavailableError)) throw error;
      }
    }
    await this.withStaged(publication.uploadId, async (staged) => {
      await staged.file.write([bytes], 0);
      await publishStaged(this.directory, log, staged, publication);
    });
  }

  private async keepLarge(draft: UploadDraft, contentPath: string, head: StreamHead<Uint8Array>): Promise<Upload> {
    try {
      return await this.withStaged(draft.uploadId, async (staged) => {
        const upload = await draft.conclude(await writeStagedFile(staged.file, behindHead(head), this.directory.reserve));
        const publication = publicationOf(upload, contentPath, await encodeIndexLine(upload));
        await this.finish(() => publishStaged(this.directory, this.logs[draft.kind], staged, publication));
        return upload;
      });
    } finally {
      await head.rest?.return?.();
    }
  }

  private async withStaged<T>(uploadId: string, work: (staged: StagedFile) => Promise<T>): Promise<T> {
    const staged = await this.stage(uploadId);
    try {
      return await work(staged);
    } catch (error) {
      await closeQuietly(staged.file);
      await this.directory.attempt(`Removing ${staged.path}`, () =>
        this.directory.disk.remove(this.directory.at(staged.path)),
      );
      throw error;
    }
  }

  private async stage(uploadId: string): Promise<StagedFile> {
    const { disk, presence, reserve } = this.directory;
    if (reserve.filesLeft < 1) reserve.refuse();
    reserve.filesLeft -= 1;
    const path = `staging/${uploadId}`;
    const create = async (): Promise<StagedFile> => {
      presence.assertHere([this.staging]);
      return { path, file: await disk.create(this.directory.at(path)) };
    };
    try {
      return await this.directory.directories.within(this.staging, create);
    } catch (error) {
      return storageFailure('A staged file could not be made.')(error);
    }
  }

  private finish(part: () => Promise<void>): Promise<void> {
    this.assertNotClosed();
    const { presence } = this.directory;
    if (presence.whyAway) throw new ServiceError('storage-failure', 'The store is away.', { cause: presence.whyAway });
    const running = part();
    this.finishing.add(running);
    return running.then(
      () => { this.finishing.delete(running); },
      (error: unknown) => {
        this.finishing.delete(running);
        if (error instanceof ServiceError) throw error;
        storageFailure('An upload could not be made durable.')(error);
      },
    );
  }

  private assertNotClosed(): void {
    if (this.closing) throw new ServiceError('storage-failure', 'The store was closed meanwhile: it went away, or the service is stopping.');
  }

  private async settle(purge: boolean, rotate: readonly UploadKind[]): Promise<void> {
    await this.rotate(rotate);
    // Waits for the uploads that are being published: their markers may refer to the segments that were just closed.
    await Promise.allSettled([...this.finishing]);
    await this.directory.journals.settleAll(purge);
    if (this.directory.journals.left.size > 0) await this.replayLeft();
  }

  private async replayLeft(): Promise<void> {
    const { left } = this.directory.journals;
    // The file of a failed upload may be in one of the journals, and its line at the end of the open segment. Closing
    // the segment cuts the line off, so that the replay doesn't restore the file.
    await this.rotate(UPLOAD_KINDS);
    for (const path of left) {
      if (!(await replayJournal(this.directory, `pending/${basename(path)}`))) throw new Error(`${path} could not be replayed; retrying before the next removal, and at the next boot.`);
      left.delete(path);
    }
  }

  private async rotate(kinds: readonly UploadKind[]): Promise<void> {
    await Promise.all(kinds.map((kind) => this.logs[kind].rotate()));
  }

  private async finishAll(): Promise<void> {
    this.directory.reserve.close();
    try {
      await this.archive.close();
      await Promise.allSettled(this.finishing);
      await this.directory.journals.close();
      await Promise.all(Object.values(this.logs).map((log) => log.close()));
      await this.directory.idempotency.close();
    } finally {
      // The lock is released even after an error: while it is held, this process can't open the store again.
      this.lock.release();
    }
  }
}

const publicationOf = (upload: Upload, contentPath: string, line: Buffer): Publication => ({
  uploadId: upload.uploadId,
  contentPath,
  segmentDirectory: segmentDirectory(upload.kind, upload.receivedAt),
  receivedAt: upload.receivedAt,
  line,
});
