import { ServiceError } from '../../../../common/service-error.js';
import { decodeIndexLine, requestDigest } from '../../../application/encoded-upload.js';
import { receiptOf, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { idempotencyScope, isKeptUnderKey } from '../../../domain/idempotency.js';
import type { Upload } from '../../../domain/upload.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { IdempotencyIndex, type IndexedUpload, type KeyedUpload, type ListedSegment, OPEN } from './idempotency-index.js';
import { StoreAwayError } from './disk-error.js';
import { DamagedDatabaseError } from './self-checking-database.js';
import type { StorePresence } from './store-presence.js';

const ADD_AFTER_MS = 50;
const ADD_AT = 1_000;
const MOST_WAITING = 10_000;
const RETRY_AFTER_SECONDS = 1;
/** The index is read again at most this often for one request. */
const MOST_ATTEMPTS = 3;
const NO_PARTS: readonly string[] = [];
const KEY_MEMBER = Buffer.from('"idempotency_key":');

/** A segment that this process writes to. */
interface OpenSegment {
  /** Relative to the root. */
  readonly path: string;
  /** Bytes. */
  readonly durableLength: number;
}

/** Lets one upload of each scope through, and answers repeated ones with the first. */
export class IdempotencyKeys {
  private readonly index: IdempotencyIndex;
  /** Uploads in progress, by their scopes, the earliest first; each with the number of uploads before it. */
  private readonly running = new Map<string, number>();
  private begun = 0;
  /** Their lines are durable, and the index doesn't have them yet. */
  private readonly waiting = new Map<string, KeyedUpload>();
  private readonly openSegments = new Map<string, OpenSegment>();
  /** Not in the index yet, each with the number of uploads that had begun when it was closed. */
  private closedSegments: { segment: ListedSegment; begun: number }[] = [];
  private timer: NodeJS.Timeout | undefined;
  private adding: Promise<void> | undefined;

  constructor(
    disk: Disk,
    directories: DurableDirectories,
    private readonly presence: Pick<StorePresence, 'assertHere'>,
    private readonly logger: StorageLogger,
    /** The store's root directory; absolute. */
    root: string,
  ) {
    const durableLength = (path: string) => this.openSegments.get(path)?.durableLength;
    this.index = new IdempotencyIndex({ disk, directories, presence, logger, root, parse: parseKeyed, durableLength });
  }

  /**
   * Keeps an upload by `keep`, unless one is kept under its scope: then `read` reads the request to its end.
   *
   * @throws ServiceError `request-in-progress`, `idempotency-key-reused`, `storage-failure`; what the two throw.
   */
  async once(scope: string, keep: () => Promise<Upload>, read: () => Promise<Upload>): Promise<UploadReceipt> {
    const earlier = await this.claim(scope);
    if (earlier) {
      if ((await requestDigest(await read())) !== earlier.request) throw new ServiceError('idempotency-key-reused');
      return earlier.receipt;
    }
    try {
      const upload = await keep();
      this.addLater(keyed(scope, upload, await requestDigest(upload)));
      return receiptOf(upload);
    } finally {
      this.running.delete(scope);
    }
  }

  /** To be called before a segment gets its first line. */
  segmentOpened(segment: OpenSegment): void {
    this.openSegments.set(segment.path, segment);
  }

  /** To be called when a segment has its final length. */
  segmentClosed({ path, durableLength: length }: OpenSegment): void {
    this.openSegments.delete(path);
    // Without any upload under a key there may be no index, and shall be none.
    if (this.begun > 0 && length > 0) this.closedSegments.push({ segment: { path, length }, begun: this.begun });
  }

  /** @throws DataDirectoryError when keys can't be written. */
  assertWritable(): Promise<void> {
    return this.index.assertWritable();
  }

  /** Makes the index ready for the next process, as far as that comes off: the lines have it all. */
  async close(): Promise<void> {
    await this.tryAdd();
    clearTimeout(this.timer);
    await this.index.close();
  }

  /** The upload that is kept under a scope; undefined when the scope is the caller's now. */
  private async claim(scope: string): Promise<IndexedUpload | undefined> {
    for (let attempt = 1; ; attempt++) {
      for (let ready = this.index.ready(); ready; ready = this.index.ready()) {
        await ready.catch(storageFailure('The index of idempotency keys could not be opened.'));
      }
      if (this.running.has(scope)) {
        throw new ServiceError('request-in-progress', 'A request with this Idempotency-Key is in progress.', { retryAfterSeconds: RETRY_AFTER_SECONDS });
      }
      try {
        // Open databases go on without their volume; an upload on it can't be promised.
        this.presence.assertHere(NO_PARTS);
        const earlier = this.find(scope);
        if (!earlier && this.waiting.size >= MOST_WAITING) throw new Error('Too many keys are to be added.');
        if (!earlier) this.running.set(scope, this.begun++);
        return earlier;
      } catch (error) {
        if (!(error instanceof DamagedDatabaseError) || attempt === MOST_ATTEMPTS) {
          storageFailure('The index of idempotency keys could not be read.')(error);
        }
      }
    }
  }

  private find(scope: string): IndexedUpload | undefined {
    const waiting = this.waiting.get(scope);
    if (waiting && isKeptUnderKey(waiting.receivedAt)) {
      const { uploadId, content, request } = waiting;
      return { receipt: { uploadId, content, replayed: true }, request };
    }
    return this.index.find(scope);
  }

  private addLater(upload: KeyedUpload): void {
    this.waiting.set(upload.scope, upload);
    if (this.waiting.size >= ADD_AT && !this.adding) void this.tryAdd();
    else this.timer ??= setTimeout(() => void this.tryAdd(), ADD_AFTER_MS).unref();
  }

  /** What could not be added stays for the next time. */
  private async tryAdd(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (this.adding) await this.adding;
    this.adding = this.add()
      .catch((error: unknown) => {
        // The lines have the keys, and the store that comes back reads them.
        if (error instanceof StoreAwayError) return;
        this.logger.warn('Adding to the index of idempotency keys failed; it is tried again with the next upload.', error);
      })
      .finally(() => (this.adding = undefined));
    await this.adding;
  }

  private async add(): Promise<void> {
    const uploads = [...this.waiting.values()];
    // Those that began before a segment was closed may have a line in it, and not be waiting yet.
    const [oldest = Infinity] = this.running.values();
    const segments = this.closedSegments.filter(({ begun }) => begun <= oldest);
    if (uploads.length === 0 && segments.length === 0) return;
    const written = [...this.openSegments.values()].filter(({ durableLength }) => durableLength > 0);
    const stillOpen = [...written.map(({ path }) => path), ...this.closedSegments.filter((closed) => !segments.includes(closed)).map(({ segment }) => segment.path)];
    await this.index.add(uploads, [...stillOpen.map((path) => ({ path, length: OPEN })), ...segments.map(({ segment }) => segment)]);
    for (const upload of uploads) if (this.waiting.get(upload.scope) === upload) this.waiting.delete(upload.scope);
    this.closedSegments = this.closedSegments.filter((closed) => !segments.includes(closed));
  }
}

const keyed = (scope: string, upload: Upload, request: string): KeyedUpload => ({
  scope,
  request,
  receivedAt: upload.receivedAt,
  ...receiptOf(upload),
});

/** Undefined for what is no line of ours, or has no key. */
function parseKeyed(line: Buffer): Promise<KeyedUpload | undefined> | undefined {
  return line.includes(KEY_MEMBER) ? decodeKeyed(line) : undefined;
}

async function decodeKeyed(line: Buffer): Promise<KeyedUpload | undefined> {
  const upload = await decodeIndexLine(line);
  const scope = upload ? idempotencyScope(upload) : null;
  if (!upload || scope === null || Number.isNaN(upload.receivedAt.getTime())) return undefined;
  return keyed(scope, upload, await requestDigest(upload));
}
