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
/** While this many uploads with a key wait to be added to the index, further ones are refused. */
const MAX_WAITING = 10_000;
const RETRY_AFTER_SECONDS = 1;
/**
 * The maximum number of attempts to look up the idempotency key of one request. A further attempt is made only if a
 * database of keys was damaged.
 */
const MAX_ATTEMPTS = 3;
const KEY_MEMBER = Buffer.from('"idempotency_key":');

/**
 * Keeps only the first upload that succeeds within 24 hours for each idempotency scope (kind, key and customer), unless
 * it is removed. Answers a repeated request with the receipt of that upload. Refuses a request with other data, and any
 * request while an upload of its scope is in progress.
 */
export class IdempotencyKeys {
  private readonly index: IdempotencyIndex;
  /**
   * The uploads with an idempotency key that are in progress, by their idempotency scopes, oldest first. Each value is
   * how many uploads with a key had begun before that upload.
   */
  private readonly running = new Map<string, number>();
  private begun = 0;
  /**
   * The uploads whose index lines are durable, but which still have to be added to the index of idempotency keys. The
   * map's keys are their idempotency scopes.
   */
  private readonly waiting = new Map<string, KeyedUpload>();
  /**
   * The ids of uploads that were removed from the store between the writing of their index lines and their addition to
   * `waiting`. Also has the id of an older upload that was removed while another upload with its scope was in progress.
   */
  private readonly removed = new Set<string>();
  /**
   * The closed segments (files of index lines) that still have to be listed with their length in the index of
   * idempotency keys. `begun` is how many uploads with a key had begun when the segment was closed.
   */
  private closedSegments: { segment: ListedSegment; begun: number }[] = [];
  private timer: NodeJS.Timeout | undefined;
  private adding: Promise<void> | undefined;

  constructor(private readonly site: IdempotencySite) {
    this.index = new IdempotencyIndex(site, parseKeyed);
  }

  /**
   * Stores an upload by calling `keep`. If the store has an upload of the last 24 hours with the same idempotency
   * scope, instead reads the whole request by calling `read`, and returns the receipt of the stored upload.
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

  /** Takes note of a segment that was closed, so that its length is final. */
  segmentClosed({ path, durableLength: length }: OpenSegment): void {
    // If no upload with a key has begun since the store was opened, the index of idempotency keys may not exist, and
    // isn't created only to list this segment.
    if (this.begun > 0 && length > 0) this.closedSegments.push({ segment: { path, length }, begun: this.begun });
  }

  /**
   * Forgets uploads whose lines were removed from a segment, so that their idempotency keys can be used again.
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
   * Resolves if uploads with a key can be expected to succeed: not too many keys wait to be added to the index of
   * idempotency keys, and the index can be written. If the index isn't complete yet, it must also be possible to
   * complete it from index lines (see `IdempotencyIndex.assertReadable`).
   *
   * @throws DataDirectoryError if keys can't be written; Error if too many keys wait; errors of
   *   `IdempotencyIndex.assertReadable`.
   */
  async assertUsable(): Promise<void> {
    this.assertRoom();
    await this.index.assertWritable();
    await this.index.assertReadable();
  }

  /**
   * Adds the waiting uploads to the index of idempotency keys, if possible, and closes the index. If adding them fails,
   * their keys are read from the index lines after the store is opened again.
   */
  async close(): Promise<void> {
    await this.tryAdd();
    clearTimeout(this.timer);
    await this.index.close();
  }

  /**
   * Resolves to the upload of the last 24 hours that is stored under an idempotency scope. Resolves to undefined if
   * there is none: `running` then has the scope, and the caller must store an upload and afterwards delete the scope
   * from `running`, also if storing fails.
   *
   * @throws ServiceError `request-in-progress`, `storage-failure`.
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
        // The store must be present with all its parts: an open database can still be read after a volume has gone
        // away, but the upload that the database reports may be gone with the volume.
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

  /**
   * Throws if so many uploads wait to be added to the index that no more can be taken. Then also tries again to add
   * them, after a moment, because without further uploads nothing else would.
   */
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

  /**
   * Adds the waiting uploads and the closed segments to the index of idempotency keys. Never rejects: after a failure,
   * they wait for the next attempt.
   */
  private async tryAdd(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (this.adding) await this.adding;
    this.adding = this.add()
      .catch((error: unknown) => {
        // While the store is away, no warning is needed: nothing is lost, because the keys are also in the index lines,
        // which are read when the store comes back.
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

/**
 * The upload that an index line describes, with its idempotency scope. Undefined if the line isn't valid, or doesn't
 * contain the text `"idempotency_key":` with a key behind it.
 */
function parseKeyed(line: Buffer): Promise<KeyedUpload | undefined> | undefined {
  return line.includes(KEY_MEMBER) ? decodeKeyed(line) : undefined;
}

async function decodeKeyed(line: Buffer): Promise<KeyedUpload | undefined> {
  const upload = await decodeIndexLine(line);
  const scope = upload ? idempotencyScope(upload) : null;
  if (!upload || scope === null || Number.isNaN(upload.receivedAt.getTime())) return undefined;
  return keyed(scope, upload, await requestDigest(upload));
}
