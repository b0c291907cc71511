import type { UploadKind } from '../../domain/upload.js';

/** An event about an upload that was stored or removed: a CloudEvent (CloudEvents 1.0) in its JSON form. */
export interface UploadEvent {
  readonly specversion: '1.0';
  readonly type: 'load-data.upload.stored.v1' | 'load-data.upload.removed.v1';
  /**
   * The id of the event: the upload's id, with `-removed` appended for a removal. An event that is delivered again has
   * the same id.
   */
  readonly id: string;
  /** The service's base URL, as clients see it. */
  readonly source: string;
  /** The id of the customer. */
  readonly subject: string;
  /**
   * When the upload was complete, also for a removal (RFC 3339, UTC). If this time is unknown, the time of the removal.
   */
  readonly time: string;
  readonly datacontenttype: 'application/json';
  readonly data: ToldUpload | ToldRemoval;
}

/** An upload as `GET /uploads/<upload_id>` describes it. */
export interface ToldUpload {
  readonly upload_id: string;
  readonly kind: UploadKind;
  readonly customer_id: string;
  readonly filename: string;
  readonly manufacturer: string;
  readonly additional_data: string | null;
  /** When the upload was complete (RFC 3339, UTC). */
  readonly received_at: string;
  /** The media type of the file. This member and the following ones are null for an upload without a file. */
  readonly content_type: string | null;
  /** Length of the file in bytes. */
  readonly content_size: number | null;
  /** The sha-256 of the file, in lower-case hex. */
  readonly content_sha256: string | null;
}

/** The data of the event that an upload was removed. */
export interface ToldRemoval {
  readonly upload_id: string;
  readonly kind: UploadKind;
  readonly customer_id: string;
}

/** A receiver of events about uploads, such as a webhook or a message broker. */
export abstract class UploadEvents {
  /**
   * Delivers events in their order. Resolves when the receiver has taken all of them. If the promise rejects, the same
   * events are delivered again, at growing intervals of up to five minutes, until a delivery succeeds. Events of
   * uploads that were removed meanwhile are left out. The next attempt may be that of another process that uses the
   * store. Events may also be delivered again after a crash. So a receiver may get an event more than once, and
   * recognises it by its `id`. A process makes one call at a time.
   *
   * @param events at least one, at most 500.
   * @param signal aborts when the service stops and waits no longer for the delivery: after `SHUTDOWN_TIMEOUT_MS`, or, in
   *   an application of your own, less than a second after it began to close. The delivery must then end soon; if it
   *   fails, the events are delivered again after the next start, or by another process.
   * @throws DeliveryError, or any other error. Its message may be logged, so it must contain no secret.
   */
  abstract deliver(events: readonly UploadEvent[], signal: AbortSignal): Promise<void>;
}

/** The error when a delivery has failed. */
export class DeliveryError extends Error {
  /**
   * How long to wait before the next delivery, in seconds, as the receiver asked; undefined if the receiver didn't ask.
   * The service may wait longer, but never more than five minutes.
   */
  readonly retryAfterSeconds: number | undefined;

  /** @param message the reason for the failure. It may be logged, so it must contain no secret. */
  constructor(message: string, { cause, retryAfterSeconds }: { readonly cause?: unknown; readonly retryAfterSeconds?: number | undefined } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
