import { ServiceError } from '../../../../common/service-error.js';
import { decodeIndexLine, requestDigest } from '../../../application/encoded-upload.js';
import { receiptOf, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { idempotencyScope, isKeptUnderKey } from '../../../domain/idempotency.js';
import type { Upload } from '../../../domain/upload.js';
import type { IdempotencyIndex, IndexedUpload, KeyedUpload } from './idempotency-index.js';
import { readLines } from './index-lines.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { DiskFile } from './disk.js';

const ADD_AFTER_MS = 50;
const ADD_AT = 1_000;
const MOST_WAITING = 10_000;
const RETRY_AFTER_SECONDS = 1;
const KEY_MEMBER = Buffer.from('"idempotency_key":');

/** Lets one upload of each scope through, and answers repeated ones with the first. */
export class IdempotencyKeys {
  private readonly running = new Set<string>();
  /** Their lines are durable, and the index doesn't have them yet. */
  private readonly waiting = new Map<string, KeyedUpload>();
  private timer: NodeJS.Timeout | undefined;
  private isSynced = true;

  constructor(
    private readonly index: IdempotencyIndex,
    private readonly logger: StorageLogger,
  ) {}

  /**
   * Keeps an upload by `keep`, unless one is kept under its scope: then `read` reads the request to its end.
   *
   * @throws ServiceError `request-in-progress`, `idempotency-key-reused`, `storage-failure`; what the two throw.
   */
  async once(scope: string, keep: () => Promise<Upload>, read: () => Promise<Upload>): Promise<UploadReceipt> {
    await this.index.open().catch(storageFailure('The index of idempotency keys could not be opened.'));
    if (this.running.has(scope)) {
      throw new ServiceError('request-in-progress', 'A request with this Idempotency-Key is in progress.', { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    const earlier = this.find(scope);
    if (earlier) {
      if ((await requestDigest(await read())) !== earlier.request) throw new ServiceError('idempotency-key-reused');
      return earlier.receipt;
    }
    if (this.waiting.size >= MOST_WAITING) throw new ServiceError('storage-failure', 'The index of idempotency keys lags behind.');
    this.running.add(scope);
    try {
      const upload = await keep();
      this.keepLater(keyed(scope, upload, await requestDigest(upload)));
      return receiptOf(upload);
    } finally {
      this.running.delete(scope);
    }
  }

  /** Adds the lines of a segment that a lost process left to the index. */
  async recover(file: DiskFile): Promise<void> {
    if (await this.index.isEmpty()) return;
    await this.index.open();
    for await (const line of readLines(file, 0)) {
      const upload = line.includes(KEY_MEMBER) ? await parseKeyed(line) : undefined;
      if (upload) this.waiting.set(upload.scope, upload);
      if (this.waiting.size >= ADD_AT) this.add();
    }
    this.add();
  }

  /** Makes the index durable as far as lines are. @throws SqliteError */
  sync(): void {
    this.add();
    if (this.isSynced) return;
    this.index.sync();
    this.isSynced = true;
  }

  close(): void {
    clearTimeout(this.timer);
    this.index.close();
  }

  private find(scope: string): IndexedUpload | undefined {
    const waiting = this.waiting.get(scope);
    if (waiting && isKeptUnderKey(waiting.receivedAt)) {
      const { uploadId, content, request } = waiting;
      return { receipt: { uploadId, content, replayed: true }, request };
    }
    try {
      return this.index.find(scope);
    } catch (error) {
      return storageFailure('The index of idempotency keys could not be read.')(error);
    }
  }

  private keepLater(upload: KeyedUpload): void {
    this.waiting.set(upload.scope, upload);
    if (this.waiting.size === ADD_AT) this.tryAdd();
    else this.timer ??= setTimeout(() => { this.tryAdd(); }, ADD_AFTER_MS).unref();
  }

  /** What fails stays, for the next time. */
  private tryAdd(): void {
    try {
      this.add();
    } catch (error) {
      this.logger.warn('Adding to the index of idempotency keys failed; it is tried again.', error);
    }
  }

  private add(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.waiting.size === 0) return;
    this.isSynced = false;
    this.index.add([...this.waiting.values()]);
    this.waiting.clear();
  }
}

const keyed = (scope: string, upload: Upload, request: string): KeyedUpload => ({
  scope,
  request,
  receivedAt: upload.receivedAt,
  ...receiptOf(upload),
});

/** Undefined for what is no line of ours, or has no key. */
async function parseKeyed(line: Buffer): Promise<KeyedUpload | undefined> {
  const upload = await decodeIndexLine(line);
  const scope = upload ? idempotencyScope(upload) : null;
  return upload && scope !== null ? keyed(scope, upload, await requestDigest(upload)) : undefined;
}
