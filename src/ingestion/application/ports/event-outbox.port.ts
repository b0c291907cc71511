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
  /** When the upload was complete; the time of its removal if the store doesn't know. */
  readonly receivedAt?: Date;
  readonly removedAt: Date;
}

export type OutboxEvent = StoredEvent | RemovedEvent;

/**
 * A batch of unconfirmed events, to be delivered to the receiver. Events of one segment are in the order of the
 * segment's lines.
 */
export interface OutboxBatch {
  /** At least one. */
  readonly events: readonly OutboxEvent[];
  /**
   * Records in the store that the events of this batch were told: the receiver has taken them, and `next` no longer
   * returns them. If the process crashes before the promise resolves, they may be delivered again. A power cut may undo
   * a confirmation. The promise also resolves if another process has taken over the outbox, or if the store was opened
   * again since `next` returned the batch: the events are then delivered again.
   */
  confirm(): Promise<void>;
}

/**
 * The events of a store that were not told yet. To tell an event means to deliver it to the receiver, and then to
 * confirm its batch. A transactional outbox: the event of a stored upload is its index line. A store offers this port
 * through `FileStorage.eventOutbox`.
 *
 * The outbox begins with what is stored after `open` resolved for the first time. From then on it contains every
 * upload, including those that are stored while no process tells. An upload that is removed before it was told is told
 * as removed only.
 *
 * An adapter converts the errors of its store to `ServiceError` of kind `storage-failure` and keeps the cause.
 */
export abstract class EventOutbox {
  /** Begins the outbox if the store has none yet. Uploads that are acknowledged afterwards are in it. */
  abstract open(): Promise<void>;

  /**
   * The next events, in the order of the index within a segment. Until a batch is confirmed, `next` begins with the
   * same events, so a call whose `limit` is the length of that batch returns the same batch, except for uploads that
   * were removed meanwhile. There is one call at a time.
   *
   * Memory is bounded by `limit` and `MAX_EVENTS_BYTES`, however many events wait.
   *
   * @param limit maximum number of events, at least 1.
   * @returns undefined if all events are confirmed, or while another process delivers them.
   */
  abstract next(limit: number): Promise<OutboxBatch | undefined>;

  /**
   * Resolves when there may be events that the last call of `next` didn't see; also after a minute at most, and when
   * the signal aborts. Never rejects.
   */
  abstract wait(signal: AbortSignal): Promise<void>;

  /**
   * Lets another process deliver the events of the store. Resolves when this process no longer keeps other processes
   * from doing so.
   */
  abstract close(): Promise<void>;
}

/** Maximum length of the index lines of a batch together, in bytes. A batch of one event may be longer. */
export const MAX_EVENTS_BYTES = 256 * 1024;
