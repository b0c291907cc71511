import type { Upload } from './upload.js';

/**
 * How long a repeated request gets the answer of the first one, after the first upload with its `Idempotency-Key` was
 * complete. In milliseconds.
 */
export const IDEMPOTENCY_PERIOD_MS = 24 * 60 * 60 * 1000;

/**
 * The operation, the customer and the `Idempotency-Key` of an upload as one text; null without a key. Within 24 hours,
 * only one upload with the same text is kept.
 */
export const idempotencyScope = ({ kind, customerId, idempotencyKey }: Pick<Upload, 'kind' | 'customerId' | 'idempotencyKey'>): string | null =>
  // None of the three texts can contain a newline.
  idempotencyKey === null ? null : [kind, idempotencyKey, customerId].join('\n');

/**
 * The data that two requests under one key must have in common: the query parameters, `additional_data` and the file's
 * bytes. The form in which they were sent doesn't matter.
 */
export const requestIdentity = ({ customerId, filename, manufacturer, additionalData, content }: Upload): string =>
  JSON.stringify([customerId, filename, manufacturer, additionalData, content?.sha256 ?? null]);

/** Whether an upload that was complete at `receivedAt` is still kept under its key: for less than 24 hours. */
export const isKeptUnderKey = (receivedAt: Date, now = Date.now()): boolean =>
  now - receivedAt.getTime() < IDEMPOTENCY_PERIOD_MS;
