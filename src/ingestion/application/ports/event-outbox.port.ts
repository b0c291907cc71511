import type { Upload, UploadKind } from '../../domain/upload.js';

/** An upload that was acknowledged. */
export interface StoredEvent {
  readonly type: 'stored';
  readonly upload: Upload;
}

/** An upload that was removed. */
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
  readonly events: readonly OutboxEvent[];
  /**
   * Remembers with the store that these events were told. A process that crashes before the promise resolves tells them
   * again.
   */
  confirm(): Promise<void>;
}

/**
 * The events of a store that were not told yet (a transactional outbox whose messages are the index lines). A store
 * offers this port through `FileStorage.eventOutbox`.
 *
 * The outbox begins with what is stored after `open` resolved for the first time. From then on nothing is left out, also
 * not what is stored while no process tells. An upload that is removed before it was told is told as removed only.
 *
 * An adapter converts the errors of its store to `ServiceError` of kind `storage-failure` and keeps the cause.
 */
export abstract class EventOutbox {
  /** Begins the outbox if the store has none yet. Call `open` before the first upload that must be told. */
  abstract open(): Promise<void>;

  /**
   * The next events, in the order of the index within a segment. Call it again only after the batch was confirmed: until
   * then it begins with the same events. Memory is bounded by `limit` and the longest lines.
   *
   * @param limit maximum number of events, at least 1.
   * @returns undefined if nothing is to be told now, or another process tells.
   */
  abstract next(limit: number): Promise<OutboxBatch | undefined>;

  /** Resolves when `next` may have more than at its last call, after a while anyway, and when the signal aborts. */
  abstract wait(signal: AbortSignal): Promise<void>;

  /** When the oldest event that was not told happened; undefined if all are told. Costs no more than a look at one line. */
  abstract oldest(): Promise<Date | undefined>;

  /** Lets another process tell. Resolves when this one holds nothing any more. */
  abstract close(): Promise<void>;
}
