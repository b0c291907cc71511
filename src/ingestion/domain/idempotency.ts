import { DAY_MS } from '../../common/durations.js';
import type { Upload } from './upload.js';

/**
 * How long an `Idempotency-Key` is kept, in milliseconds, from the time at which the first upload under the key was
 * complete. In this period, unless that upload is removed, a repetition of its request gets the answer of the first
 * request.
 */
export const IDEMPOTENCY_PERIOD_MS = DAY_MS;

/**
 * The kind, the `Idempotency-Key` and the customer of an upload as one text; null for an upload without a key. For 24
 * hours after a stored upload was complete, unless it is removed, no other upload with the same text is stored.
 */
export const idempotencyScope = ({ kind, customerId, idempotencyKey }: Pick<Upload, 'kind' | 'customerId' | 'idempotencyKey'>): string | null =>
  // Kind, key and customer id contain no newline, so different combinations of them never give the same text.
  idempotencyKey === null ? null : [kind, idempotencyKey, customerId].join('\n');

/**
 * The data of an upload that a repeated request under its `Idempotency-Key` must have too, as one text: the query
 * parameters, `additional_data` and the sha-256 of the file. A repeated request with other data is refused. It doesn't
 * matter whether the data was sent as a form, as JSON or as plain bytes.
 */
export const requestIdentity = ({ customerId, filename, manufacturer, additionalData, content }: Upload): string =>
  JSON.stringify([customerId, filename, manufacturer, additionalData, content?.sha256 ?? null]);

/** Whether the `Idempotency-Key` of an upload is still kept: less than 24 hours have passed since `receivedAt`. */
export const isKeptUnderKey = (receivedAt: Date, now = Date.now()): boolean =>
  now - receivedAt.getTime() < IDEMPOTENCY_PERIOD_MS;
