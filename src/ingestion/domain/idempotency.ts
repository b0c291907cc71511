import type { Upload } from './upload.js';

/**
 * How long an `Idempotency-Key` is kept after the first upload with it was complete, in milliseconds. Until then, a
 * repeated request gets the answer of the first one.
 */
export const IDEMPOTENCY_PERIOD_MS = 24 * 60 * 60 * 1000;

/**
 * The kind, the `Idempotency-Key` and the customer of an upload as one text; null for an upload without a key. Of
 * uploads with the same text, only the first within 24 hours is stored.
 */
export const idempotencyScope = ({ kind, customerId, idempotencyKey }: Pick<Upload, 'kind' | 'customerId' | 'idempotencyKey'>): string | null =>
  // Neither kind, key nor customer id can contain a newline, so different combinations of them never give the same
  // text.
  idempotencyKey === null ? null : [kind, idempotencyKey, customerId].join('\n');

/**
 * The data that two requests with the same `Idempotency-Key` must have in common, as one text: the query parameters,
 * `additional_data` and the sha-256 of the file. The form in which the data was sent doesn't matter.
 */
export const requestIdentity = ({ customerId, filename, manufacturer, additionalData, content }: Upload): string =>
  JSON.stringify([customerId, filename, manufacturer, additionalData, content?.sha256 ?? null]);

/**
 * Whether an upload that was complete at `receivedAt` is still kept under its `Idempotency-Key`: for less than 24
 * hours.
 */
export const isKeptUnderKey = (receivedAt: Date, now = Date.now()): boolean =>
  now - receivedAt.getTime() < IDEMPOTENCY_PERIOD_MS;
