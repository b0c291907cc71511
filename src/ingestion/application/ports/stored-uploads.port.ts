import { MIB } from '../../../common/sizes.js';
import type { UploadFilter, UploadPosition } from '../../domain/upload-filter.js';
import type { Upload } from '../../domain/upload.js';

export type { UploadFilter, UploadPosition };

/** A page of a list of uploads. */
export interface UploadPage {
  /** The uploads of the page, newest first. There may be fewer than requested, or none, although more follow. */
  readonly uploads: readonly Upload[];
  /**
   * The position to pass to `list` as `after` to get the next page, which may be the last one and empty; null if it is
   * known that no uploads follow.
   */
  readonly next: UploadPosition | null;
}

/** Returns whether the caller may access the uploads of a customer. */
export type CustomerAccess = (customerId: string) => boolean;

/** A part of a file, from the first to the last byte. */
export interface ByteRange {
  /** Offset of the first byte, from 0. */
  readonly first: number;
  /** Offset of the last byte, which is included. */
  readonly last: number;
}

/** Where memory for the long index lines of one answer is taken. Each call of `take` must wait for the previous one. */
export interface LineMemory {
  /**
   * Resolves when there is memory for `bytes` more bytes. The memory is held until `giveBack` returns it, at the latest
   * until the answer has been sent.
   *
   * @throws ServiceError `client-aborted` if the client has gone.
   */
  take(bytes: number): Promise<void>;
  giveBack(bytes: number): void;
}

/**
 * The uploads that a store contains. A store offers this port through `FileStorage.storedUploads`.
 *
 * An adapter converts the errors of its store to `ServiceError` of kind `storage-failure` and keeps the cause. It
 * throws the error `client-aborted` of a `LineMemory` unchanged. Any number of calls may be in progress at once, and
 * uploads may be stored meanwhile. An upload is found as soon as `FileStorage.store` has resolved, by every process
 * that uses the store.
 */
export abstract class StoredUploads {
  /**
   * Finds an upload by its id. The id is a version 7 UUID with the time at which the upload began, and an upload takes
   * at most `MAX_UPLOAD_DURATION_MS`. So an adapter needs to read only the index lines of uploads that were received
   * between the beginning of the upload and `MAX_UPLOAD_DURATION_MS` later.
   *
   * @param memory where an adapter takes memory for a line of more than 64 KiB before it decodes the line, and for one
   *   of more than 256 KiB before it reads the line.
   * @returns undefined if there is no such upload.
   */
  abstract find(uploadId: string, memory?: LineMemory): Promise<Upload | undefined>;

  /**
   * Lists uploads, newest `receivedAt` first. Of uploads received at the same time, the one with the greatest id comes
   * first.
   *
   * A page is limited not only by `limit`, but also by the work that a store is willing to do for one call. Memory for
   * index lines is bounded by `limit`, `MAX_PAGE_BYTES`, the longest line and a constant.
   *
   * @param limit maximum number of uploads in the page, at least 1.
   * @param after lists only uploads that follow this position.
   * @param memory where an adapter takes memory for the lines of the page, if they have more than 64 KiB in all, and
   *   for a line of more than 256 KiB before it reads the line.
   */
  abstract list(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage>;

  /**
   * Opens the file of an upload. Reads only a little further than the caller. A caller that stops early must end the
   * iterator. When a caller no longer needs a chunk, it may pass that chunk as the argument of `next`. The store may
   * then use the memory of that chunk for a later one.
   *
   * The number of bytes is the file's length in the upload, or that of the range. If some of these bytes are missing,
   * opening or reading the file fails. If the file is longer than in the upload, reading may fail, too.
   *
   * @param upload an upload with a file, as `find` or `list` returned it.
   * @param range the part to read, within the file; the whole file without it.
   * @returns undefined if the file is missing, usually because the upload was removed in the meantime.
   */
  abstract openContent(upload: Upload, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined>;

  /**
   * Removes an upload: its index line, the bytes of its file and its idempotency key. The removal is durable when the
   * promise resolves. If the promise rejects or the process dies, the upload is either whole or gone, at the latest
   * soon after the next boot. If an earlier removal of the upload has failed after its index line was removed,
   * completes that removal, and resolves to true.
   *
   * @param mayAccess if the caller may not access the upload's customer, the upload counts as absent. Default: the
   *   caller may access all customers.
   * @returns false if there is no such upload, or if another call has just removed it.
   */
  abstract remove(uploadId: string, mayAccess?: CustomerAccess): Promise<boolean>;

  /**
   * Removes all uploads that a filter selects and that were stored before the call, as `remove` does. Uploads that are
   * stored meanwhile may be removed too. After an error, call `removeAll` again to remove the rest. Unless `dryRun` is
   * set, the call also completes earlier removals that failed after the index line was removed, at least those of the
   * filter's customer (all of them if the filter has no customer). The call resolves only when no file and no
   * idempotency key of the uploads of these removals is left.
   *
   * @returns the number of uploads that were removed, without those of earlier removals; with `dryRun`, the number that
   *   would be removed.
   */
  abstract removeAll(filter: UploadFilter, options?: RemovalOptions): Promise<number>;

  /**
   * Removes the uploads that were received before a time, as `removeAll` does. Called once an hour by each process that
   * uses the store, if uploads are kept for a limited time. A store that several processes may use overrides this
   * method, so that only one of them does the work. A store with a clock of its own moves `end` back by whole days if
   * this machine's clock already shows a later day (UTC) than the store's.
   *
   * @returns the number of uploads that this call removed.
   */
  removeExpired(end: Date, options?: RemovalOptions): Promise<number> {
    return this.removeAll({ to: end }, options);
  }
}

export interface RemovalOptions {
  /** Whether to count the uploads only, and remove nothing. */
  readonly dryRun?: boolean;
  /**
   * Called each time one or more further segments (files of index lines) were read, and perhaps once more at the end.
   */
  readonly onProgress?: (progress: RemovalProgress) => void;
  /**
   * When this signal aborts, the call stops before its next step and rejects with the signal's reason. If no step is
   * left, the call resolves.
   */
  readonly signal?: AbortSignal;
}

export interface RemovalProgress {
  /** `segments`: how many segments were read so far. `allSegments`: how many must be read in all, as far as known. */
  readonly segments: number;
  readonly allSegments: number;
  /** The number of uploads removed so far. With `dryRun`, the number of uploads that would have been removed. */
  readonly uploads: number;
}

/**
 * A limit for the total length of the index lines of one page, in bytes. A page ends at the latest with the line that
 * reaches it.
 */
export const MAX_PAGE_BYTES = 4 * MIB;
