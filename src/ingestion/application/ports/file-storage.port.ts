import type { Upload, UploadKind } from '../../domain/upload.js';
import type { EventOutbox } from './event-outbox.port.js';
import type { StoredUploads } from './stored-uploads.port.js';

/** Size and digest of a file, computed by the store from the bytes that it has read. */
export interface StoredContent {
  /** Length of the file in bytes. */
  readonly size: number;
  /** The sha-256 of the file, in lower-case hex. */
  readonly sha256: string;
}

/** The store's confirmation that an upload is durable. */
export interface UploadReceipt {
  readonly uploadId: string;
  /** Null for an upload without a file. */
  readonly content: StoredContent | null;
  /**
   * Whether the receipt is for an earlier upload under the same idempotency key (undefined: it isn't). Nothing was
   * stored now in that case.
   */
  readonly replayed?: boolean;
}

/** Makes the receipt of a stored upload, for the request that stored the upload (`replayed` is false). */
export const receiptOf = ({ uploadId, content }: Upload): UploadReceipt => ({
  uploadId,
  content: content && { size: content.size, sha256: content.sha256 },
  replayed: false,
});

/** An upload in progress. The bytes of its file may still be arriving, and its `additional_data` may follow them. */
export interface UploadDraft {
  /** An id that is unique forever. A store never receives the same id twice. */
  readonly uploadId: string;
  readonly kind: UploadKind;
  /**
   * The scope of the upload's idempotency key (see `idempotencyScope`). For 24 hours after an upload was stored, no
   * other one with its scope is kept, unless the first is removed. Null for an upload without an idempotency key, which
   * is stored again whenever the client sends it again.
   */
  readonly idempotencyScope: string | null;
  /** Null for an upload without a file. */
  readonly content: {
    /** Final path of the bytes, relative to the store's root (see `domain/layout.ts`). Contains `uploadId`. */
    readonly path: string;
    /**
     * The bytes of the file, which may be empty. The store reads them at most once, in order. Reading throws if the
     * request fails, for example because the client aborts it, or because it is invalid.
     */
    readonly bytes: AsyncIterable<Uint8Array>;
  } | null;
  /**
   * Completes the upload, and returns its data. A store calls this function at most once: after it has read the last
   * byte of the file, and before anything of the upload is visible. If the function throws, the store discards the
   * upload, and rejects with that error.
   *
   * @param stored size and digest of the bytes that the store has read; null for an upload without a file.
   */
  conclude(stored: StoredContent | null): Promise<Upload>;
}

/**
 * Stores uploads: the bytes of their files, and one index line for each.
 *
 * An adapter converts the errors of its store to `ServiceError` of kind `storage-failure` and keeps the cause. Errors
 * of `bytes` and of `conclude` are thrown unchanged. Any number of calls may be in progress at once.
 */
export abstract class FileStorage {
  /**
   * Stores an upload. Its index line and the bytes of its file are one unit. If the promise
   *
   * - resolves: both are durable (they survive a power cut) and visible;
   * - rejects: neither is visible, at the latest after the next boot. In a store that several processes use, both may
   *   stay after a `storage-failure`: if the process ends before it has undone the upload, or if another process has
   *   already counted the upload as stored;
   * - is still pending when the process dies: after the next boot either both are visible or neither is.
   *
   * Of uploads with the same `idempotencyScope` within 24 hours, only the first that succeeds is kept, unless it is
   * removed. Its scope is committed together with its line. So after a crash or restart, a repeated request still finds
   * that upload, and isn't stored again. An upload that fails frees its scope; after a `storage-failure` perhaps only
   * later, and not if the upload stays.
   *
   * Holds only a limited part of a file in memory, and reads no faster than it writes. Never overwrites a stored file.
   *
   * @returns the receipt, which may be the same object that `conclude` returned. For a repeated request, the receipt of
   *   the first request, after the repeated bytes were read and `conclude` was called too.
   * @throws ServiceError `request-in-progress` with `retryAfterSeconds` 1, before any byte is read, while another
   *   upload of the scope may be in progress; `idempotency-key-reused` if the first upload differs (see
   *   `requestIdentity`); `storage-failure` if the store fails. Errors of `bytes` and of `conclude`.
   */
  abstract store(draft: UploadDraft): Promise<UploadReceipt>;

  /**
   * The uploads that the store contains, to find, list, fetch and remove them. Undefined if the adapter doesn't
   * implement that: the service then answers 404 for these operations.
   */
  readonly storedUploads?: StoredUploads | undefined;

  /**
   * The store's unconfirmed events, for delivery to a receiver. Undefined if the store doesn't record events: the
   * service then delivers none.
   */
  readonly eventOutbox?: EventOutbox | undefined;

  /**
   * Returns the present time for new uploads, in milliseconds since 1970: the store's if its clock and this machine's
   * differ by four minutes or more, otherwise this machine's. The times in an upload's id and in its `receivedAt` come
   * from here, so that these times are right even if a machine's clock is wrong by more than that, once the store has
   * answered. The method is undefined if the store has no clock of its own: this machine's time is used then.
   */
  now?(): number;

  /**
   * Resolves if an upload could be stored now, according to a check of which parts may be a minute old. Otherwise
   * rejects with the reason, within five seconds.
   */
  abstract checkHealth(): Promise<void>;
}
