import { ServiceError } from '../../../../common/service-error.js';
import { decodeIndexLine } from '../../../application/line-decoding.js';
import { requestDigest } from '../../../application/request-digest.js';
import { receiptOf, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { idempotencyScope, isKeptUnderKey } from '../../../domain/idempotency.js';
import type { Upload } from '../../../domain/upload.js';
import { IdempotencyIndex, type IdempotencySite } from './idempotency-index.js';
import { type IndexedUpload, type KeyedUpload, type ListedSegment, OPEN } from './key-entries.js';
import { StoreAwayError } from './disk-error.js';
import { DamagedDatabaseError } from './self-checking-database.js';
import type { OpenSegment } from './stored-uploads/segments.js';

const ADD_AFTER_MS = 50;
const ADD_AT = 1_000;
const MAX_WAITING = 10_000;
const RETRY_AFTER_SECONDS = 1;
const MAX_ATTEMPTS = 3;
const KEY_MEMBER = Buffer.from('"idempotency_key":');

/**
 * Keeps only the first upload that succeeds within 24 hours for each idempotency scope, unless it is removed. Answers a
 * repeated request with the receipt of that upload. Refuses a request with other data, and any request while an upload
 * of its scope is in progress.
 */
export class IdempotencyKeys {
  private readonly index: IdempotencyIndex;
  /** By scope, the uploads in progress, oldest first; each with how many uploads with a key had begun before it. */
  private readonly running = new Map<string, number>();
  private begun = 0;
  private readonly waiting = new Map<string, KeyedUpload>();
  /** Ids of uploads that were removed while an upload of their scope was in progress. */
  private readonly removed = new Set<string>();
  private closedSegments: { segment: ListedSegment; begun: number }[] = [];
  private timer: NodeJS.Timeout | undefined;
  private adding: Promise<void> | undefined;

  constructor(private readonly site: IdempotencySite) {
    this.index = new IdempotencyIndex(site, parseKeyed);
  }

  /**
   * Stores an upload by calling `keep`. If its scope has an upload of the last 24 hours, calls `read` instead, to read
   * the whole request, and returns the receipt of the stored upload.
   *
   * @throws ServiceError `request-in-progress`, `idempotency-key-reused`, `storage-failure`; errors of `keep` and
   *   `read`.
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

  segmentClosed({ path, durableLength: length }: OpenSegment): void {
    // Before the first upload with a key, closed segments are ignored: no database is created only to list them.
    if (this.begun > 0 && length > 0) this.closedSegments.push({ segment: { path, length }, begun: this.begun });
  }

  /**
   * Forgets uploads whose lines were removed from a segment, so that their keys can be used again.
   *
   * @param segment path of the segment, relative to the store's root.
   * @param length the new length of the segment in bytes; 0 if it has no more lines.
   */
  async forget(segment: string, length: number, uploads: readonly { readonly uploadId: string; readonly scope: string }[]): Promise<void> {
    while (this.adding) await this.adding;
    for (const { uploadId, scope } of uploads) {
      if (this.waiting.get(scope)?.uploadId === uploadId) this.waiting.delete(scope);
      else if (this.running.has(scope)) this.removed.add(uploadId);
    }
    this.closedSegments = this.closedSegments
      .map((closed) => (closed.segment.path === segment ? { ...closed, segment: { path: segment, length } } : closed))
      .filter((closed) => closed.segment.length > 0);
    await this.index.forget({ path: segment, length }, uploads);
  }

  /**
   * Resolves if uploads with a key can be expected to succeed.
   *
   * @throws DataDirectoryError if keys can't be written; Error if too many keys wait to be added; errors of
   *   `IdempotencyIndex.assertReadable`.
   */
  async assertUsable(): Promise<void> {
    this.assertRoom();
    await this.index.assertWritable();
    await this.index.assertReadable();
  }

  /** Closes the index. Keys that could not be added are read from the index lines after the store is opened again. */
  async close(): Promise<void> {
    await this.tryAdd();
    clearTimeout(this.timer);
    await this.index.close();
  }

  /**
   * Returns the stored upload of a scope. If there is none, adds the scope to `running` and resolves to undefined. The
   * caller must then delete it from `running` later, even if storing the upload fails.
   */
  private async claim(scope: string): Promise<IndexedUpload | undefined> {
    for (let attempt = 1; ; attempt++) {
      for (let ready = this.index.ready(); ready; ready = this.index.ready()) {
        await ready.catch(storageFailure('The index of idempotency keys could not be opened.'));
      }
      if (this.running.has(scope)) {
        throw new ServiceError('request-in-progress', 'A request with this Idempotency-Key is in progress.', { retryAfterSeconds: RETRY_AFTER_SECONDS });
      }
      try {
        // The store's presence is checked first: an open database still answers when a volume has gone away.
        this.site.presence.assertHere();
        const earlier = this.find(scope);
        if (earlier) return earlier;
        this.assertRoom();
        this.running.set(scope, this.begun++);
        return undefined;
      } catch (error) {
        if (!(error instanceof DamagedDatabaseError) || attempt === MAX_ATTEMPTS) {
          storageFailure('The index of idempotency keys could not be read.')(error);
        }
      }
    }
  }

  /** Throws if too many uploads wait to be added. Also schedules an attempt then, in case no upload follows. */
  private assertRoom(): void {
    if (this.waiting.size < MAX_WAITING) return;
    this.timer ??= setTimeout(() => void this.tryAdd(), ADD_AFTER_MS).unref();
    throw new Error(`${this.waiting.size} keys wait to be added to the index of idempotency keys.`);
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
    if (this.removed.delete(upload.uploadId)) return;
    this.waiting.set(upload.scope, upload);
    if (this.waiting.size >= ADD_AT && !this.adding) void this.tryAdd();
    else this.timer ??= setTimeout(() => void this.tryAdd(), ADD_AFTER_MS).unref();
  }

  private async tryAdd(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (this.adding) await this.adding;
    this.adding = this.add()
      .catch((error: unknown) => {
        // Needs no warning: the keys are also in the index lines, which are read after the store is opened again.
        if (error instanceof StoreAwayError) return;
        this.site.logger.warn('Adding to the index of idempotency keys failed; retrying with the next upload.', error);
      })
      .finally(() => (this.adding = undefined));
    await this.adding;
  }

  private async add(): Promise<void> {
    const uploads = [...this.waiting.values()];
    // A closed segment is listed as `OPEN` until all uploads with a key that began before it was closed have ended.
    // The line of such an upload may be in the segment while the upload isn't in `waiting` yet. After a crash, a
    // segment that is listed with its length isn't read again, so the key of that upload would be lost.
    const [oldest = Infinity] = this.running.values();
    const segments = this.closedSegments.filter(({ begun }) => begun <= oldest);
    if (uploads.length === 0 && segments.length === 0) return;
    const written = [...this.site.openSegments.values()].filter(({ durableLength }) => durableLength > 0);
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

function parseKeyed(line: Buffer): Promise<KeyedUpload | undefined> | undefined {
  return line.includes(KEY_MEMBER) ? decodeKeyed(line) : undefined;
}

async function decodeKeyed(line: Buffer): Promise<KeyedUpload | undefined> {
  const upload = await decodeIndexLine(line);
  const scope = upload ? idempotencyScope(upload) : null;
  if (!upload || scope === null || Number.isNaN(upload.receivedAt.getTime())) return undefined;
  return keyed(scope, upload, await requestDigest(upload));
}
