import type { Upload, UploadKind } from '../../domain/upload.js';

/** What a store found out about a file's bytes on their way. */
export interface StoredContent {
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** What a store says of an upload that it keeps. */
export interface UploadReceipt {
  readonly uploadId: string;
  /** Null for an upload without a file. */
  readonly content: StoredContent | null;
  /** Whether it is of an earlier upload under the same key, and nothing was stored now. */
  readonly replayed?: boolean;
}

/** The receipt of an upload that was stored now. */
export const receiptOf = ({ uploadId, content }: Upload): UploadReceipt => ({
  uploadId,
  content: content && { size: content.size, sha256: content.sha256 },
  replayed: false,
});

/** An upload that is under way: its bytes are still arriving, and what stands behind them isn't known yet. */
export interface UploadDraft {
  /** Unique for ever; a store never gets the same one twice. */
  readonly uploadId: string;
  readonly kind: UploadKind;
  /** What the upload is to be kept under for 24 hours (`idempotencyScope`); null for one that may be repeated. */
  readonly idempotencyScope: string | null;
  /** Null for an upload without a file. */
  readonly content: {
    /** Where the bytes are to stand, relative to the store's root (see `domain/layout.ts`). Contains `uploadId`. */
    readonly path: string;
    /** Of any length, also none; read once, in order. Throws when the client breaks its upload off. */
    readonly bytes: AsyncIterable<Uint8Array>;
  } | null;
  /**
   * Completes the upload. A store calls it exactly once, after the last byte and before anything is visible
   * (null for an upload without a file). When it throws, the store keeps nothing and rejects with that error.
   */
  conclude(stored: StoredContent | null): Promise<Upload>;
}

/**
 * Where uploads are kept: the bytes of their files, and one index line for each.
 *
 * An adapter translates what its store throws into `ServiceError` of kind `storage-failure`, with the cause kept;
 * errors of `bytes` and of `conclude` pass through unchanged. Any number of calls may be under way at once.
 */
export abstract class FileStorage {
  /**
   * Keeps an upload, the line and the bytes as one. When the promise
   * - resolves: both are durable (they survive a power cut) and visible;
   * - rejects: neither is visible, at the latest after the next boot;
   * - is still pending when the process dies: after the next boot either both are visible or neither is.
   *
   * Of uploads with one `idempotencyScope` within 24 hours only the first that succeeds is kept, the scope with its line
   * in one commit: a crash or restart neither stores a second nor forgets. One that fails gives its scope free.
   *
   * Never holds a file's bytes in memory, and reads no faster than it writes. Never overwrites.
   *
   * @returns the receipt, for instance the upload as `conclude` gave it; for a repeated request that of the first, after its bytes were read and concluded too.
   * @throws ServiceError `request-in-progress`, before any byte is read, while the first under its scope is under way;
   * `idempotency-key-reused` when the first was another request (`requestIdentity`); `storage-failure`.
   */
  abstract store(draft: UploadDraft): Promise<UploadReceipt>;

  /** Resolves when an upload could be kept now; rejects with the reason otherwise, within five seconds. */
  abstract checkHealth(): Promise<void>;
}
