import type { Upload, UploadKind } from '../../domain/upload.js';

/** An upload was acknowledged. */
export interface StoredEvent {
  readonly type: 'stored';
  readonly upload: Upload;
}

/** An upload was removed. */
export interface RemovedEvent {
  readonly type: 'removed';
  readonly uploadId: string;
  readonly kind: UploadKind;
  readonly customerId: string;
  readonly removedAt: Date;
}

export type OutboxEvent = StoredEvent | RemovedEvent;

/** Events that were not told yet, the oldest of their segment first. */
export interface OutboxBatch {
  /** At least one. */
  readonly events: readonly OutboxEvent[];
  /**
   * Remembers with the store that these events were told. If the process crashes before the promise resolves, they are
   * told again. A power cut may undo a confirmation. Also resolves if another process has taken over: it tells them again.
   */
  confirm(): Promise<void>;
}

/**
 * The events of a store that were not told yet: a transactional outbox whose messages are the index lines. A store
 * offers this port through `FileStorage.eventOutbox`.
 *
 * The outbox begins with what is stored after `open` resolved for the first time. From then on it contains every upload,
 * including those that are stored while no process tells. An upload that is removed before it was told is told as
 * removed only.
 *
 * An adapter converts the errors of its store to `ServiceError` of kind `storage-failure` and keeps the cause.
 */
export abstract class EventOutbox {
  /** Begins the outbox if the store has none yet. Uploads that are acknowledged afterwards are in it. */
  abstract open(): Promise<void>;

  /**
   * The next events, in the order of the index within a segment. Until a batch is confirmed, `next` begins with the same
   * events, so a call with the length of that batch returns the same batch, except for uploads that were removed
   * meanwhile. There is one call at a time.
   *
   * Memory is bounded by `limit` and `MAX_EVENTS_BYTES`, however many events wait.
   *
   * @param limit maximum number of events, at least 1.
   * @returns undefined if all events were told, or another process tells them.
   */
  abstract next(limit: number): Promise<OutboxBatch | undefined>;

  /**
   * Resolves when there may be events that the last call of `next` didn't see; also after a minute at most, and when the
   * signal aborts. Never rejects.
   */
  abstract wait(signal: AbortSignal): Promise<void>;

  /** Lets another process tell the events. Resolves when this process holds nothing that others wait for. */
  abstract close(): Promise<void>;
}

/** The index lines of a batch have at most this many bytes together, except for a batch of one event. */
export const MAX_EVENTS_BYTES = 256 * 1024;
