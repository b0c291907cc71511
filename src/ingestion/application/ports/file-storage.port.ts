import type { Upload, UploadKind } from '../../domain/upload.js';

/** Size and digest of a file's bytes, computed by the store as they arrive. */
export interface StoredContent {
  /** A length in bytes. */
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** The store's confirmation of an upload. */
export interface UploadReceipt {
  readonly uploadId: string;
  /** Null for an upload without a file. */
  readonly content: StoredContent | null;
  /** Whether the receipt is for an earlier upload under the same key, and nothing was stored now. */
  readonly replayed?: boolean;
}

/** The receipt of an upload that was stored now. */
export const receiptOf = ({ uploadId, content }: Upload): UploadReceipt => ({
  uploadId,
  content: content && { size: content.size, sha256: content.sha256 },
  replayed: false,
});

/** An upload in progress. Its bytes are still arriving, and the data that follows them isn't known yet. */
export interface UploadDraft {
  /** Unique forever. A store never receives the same id twice. */
  readonly uploadId: string;
  readonly kind: UploadKind;
  /**
   * The scope that the upload is kept under for 24 hours (`idempotencyScope`); null for an upload that may be repeated.
   */
  readonly idempotencyScope: string | null;
  /** Null for an upload without a file. */
  readonly content: {
    /** Final path of the bytes, relative to the store's root (see `domain/layout.ts`). Contains `uploadId`. */
    readonly path: string;
    /** Of any length, even empty. Read once, in order. Throws if the client aborts its upload. */
    readonly bytes: AsyncIterable<Uint8Array>;
  } | null;
  /**
   * Completes the upload. A store calls it exactly once, after the last byte and before anything is visible. If it
   * throws, the store keeps nothing and rejects with that error.
   *
   * @param stored null for an upload without a file.
   */
  conclude(stored: StoredContent | null): Promise<Upload>;
}

/**
 * Stores uploads: the bytes of their files, and one index line for each.
 *
 * An adapter turns the errors of its store into `ServiceError` of kind `storage-failure` and keeps the cause. Errors of
 * `bytes` and of `conclude` pass through unchanged. Any number of calls may be in progress at once.
 */
export abstract class FileStorage {
  /**
   * Stores an upload. Its line and its bytes are one unit. If the promise
   *
   * - resolves: both are durable (they survive a power cut) and visible;
   * - rejects: neither is visible, at the latest after the next boot;
   * - is still pending when the process dies: after the next boot either both are visible or neither is.
   *
   * Of uploads with the same `idempotencyScope` within 24 hours, only the first that succeeds is kept. Its scope is
   * committed together with its line, so a crash or restart neither stores a second one nor forgets the first. An
   * upload that fails frees its scope.
   *
   * Never holds a file's bytes in memory, and reads no faster than it writes. Never overwrites.
   *
   * @returns the receipt. For a repeated request, the receipt of the first one, after the repeated bytes were read and
   *   concluded too.
   * @throws ServiceError `request-in-progress`, before any byte is read, while the first upload of its scope is in
   *   progress; `idempotency-key-reused` if the first was another request (`requestIdentity`); `storage-failure`.
   */
  abstract store(draft: UploadDraft): Promise<UploadReceipt>;

  /** Resolves if an upload could be stored now. Otherwise rejects with the reason, within five seconds. */
  abstract checkHealth(): Promise<void>;
}
