import type { Upload, UploadKind } from '../../domain/upload.js';

/** The event that an upload was stored. */
export interface StoredEvent {
  readonly type: 'stored';
  readonly upload: Upload;
}

/** The event that an upload was removed. */
export interface RemovedEvent {
  readonly type: 'removed';
  readonly uploadId: string;
  readonly kind: UploadKind;
  readonly customerId: string;
  /** When the upload was complete. If the store doesn't know, undefined or the time of the removal. */
  readonly receivedAt?: Date;
  readonly removedAt: Date;
}

export type OutboxEvent = StoredEvent | RemovedEvent;

/**
 * A batch of unconfirmed events, to be delivered to the receiver. Uploads whose lines are in the same segment (a file
 * of index lines) have their events in the order of the lines, unless the lines were moved there later.
 */
export interface OutboxBatch {
  /** The events of the batch, at least one. */
  readonly events: readonly OutboxEvent[];
  /**
   * Records in the store that the receiver has taken the events of this batch, so that `next` no longer returns them.
   * If the process crashes before the promise resolves, the events may be delivered again. A power cut may undo a
   * confirmation. If another process has taken over the outbox, or the store was opened again since `next` returned the
   * batch, the promise resolves without effect, and the events may be delivered again. The same may happen if `next`
   * has returned another batch since.
   */
  confirm(): Promise<void>;
}

/**
 * The unconfirmed events of a store: the store hasn't recorded yet that the receiver has taken them. A transactional
 * outbox: the index line of a stored upload is also its event. A store offers this port through
 * `FileStorage.eventOutbox`.
 *
 * The outbox contains every upload that is stored after `open` resolved for the first time, even if no process delivers
 * events at that time. If an upload is removed before its event was delivered, only the event of its removal is
 * delivered.
 *
 * An adapter converts the errors of its store to `ServiceError` of kind `storage-failure` and keeps the cause.
 */
export abstract class EventOutbox {
  /**
   * Creates the outbox if the store has none yet. From then on, each upload that is acknowledged is in the outbox until
   * its event is confirmed or the upload is removed.
   */
  abstract open(): Promise<void>;

  /**
   * Whether the store has an outbox, which `open` has created in this process or another one. If so, and no receiver is
   * set, the service warns at boot. Default: false, so that there is no such warning.
   */
  hasBegun(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /**
   * Returns the next unconfirmed events. Events of the same segment (a file of index lines) are in the order of its
   * lines, unless the lines were moved there later. After a batch that wasn't confirmed, the next call begins with the
   * same events again: those of that batch, as far as `limit` allows, without uploads that were removed meanwhile. If
   * none was removed and `limit` is the length of that batch, the call returns the same events. Other events may come
   * first after another process has taken over or the store was opened again, and while a segment can't be read. The
   * service makes one call at a time.
   *
   * Memory for events is bounded by `limit` and `MAX_EVENTS_BYTES`, or by one longer line, however many events wait.
   *
   * @param limit maximum number of events, at least 1.
   * @returns undefined if no unconfirmed event was found, if another process may be delivering the events, or if the
   * store has no outbox.
   */
  abstract next(limit: number): Promise<OutboxBatch | undefined>;

  /**
   * Since when the last call of `next` can't read some events, although it returned others or undefined. The metric
   * `load_data_events_lag_seconds` then counts from that time. Default: undefined, because `next` rejects if it can't
   * read all events.
   */
  get unreadableSince(): Date | undefined {
    return undefined;
  }

  /**
   * Resolves when there may be events that the last call of `next` didn't return, in a bucket up to five seconds later.
   * Also resolves after a minute at the latest, and when the signal aborts. Never rejects.
   */
  abstract wait(signal: AbortSignal): Promise<void>;

  /**
   * Allows another process to deliver the events of the store until the next call of `next`. Called at the beginning of
   * a pause of ten seconds or more after a failure, unless the receiver asked for the pause: another process may reach
   * the receiver. If none has taken over by then, `next` returns the same events again, as after any failed delivery.
   * This default implementation does nothing: it is for a store that only one process uses.
   */
  giveWay(): Promise<void> {
    return Promise.resolve();
  }

  /**
   * Ends the deliveries of this process, so that another one can deliver the events of the store. If the store fails,
   * other processes may have to wait until they consider this process crashed.
   */
  abstract close(): Promise<void>;
}

/**
 * Maximum total length, in bytes, of the index lines whose events are in one batch. A batch of one event may be longer.
 */
export const MAX_EVENTS_BYTES = 256 * 1024;
