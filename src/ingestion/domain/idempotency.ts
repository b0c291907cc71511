import { DAY_MS } from '../../common/durations.js';
import type { Upload } from './upload.js';

/**
 * How long an `Idempotency-Key` is kept, from the time at which its first upload was complete, unless that upload is
 * removed.
 */
export const IDEMPOTENCY_PERIOD_MS = DAY_MS;

/**
 * The kind, the `Idempotency-Key` and the customer of an upload as one text; null without a key. For 24 hours, unless
 * the upload is removed, no other upload of the same scope is stored.
 */
export const idempotencyScope = ({ kind, customerId, idempotencyKey }: Pick<Upload, 'kind' | 'customerId' | 'idempotencyKey'>): string | null =>
  // Kind, key and customer id contain no newline, so different combinations of them never give the same text.
  idempotencyKey === null ? null : [kind, idempotencyKey, customerId].join('\n');

/**
 * The data that a repeated request under an `Idempotency-Key` must have too, as one text. It doesn't matter whether the
 * data was sent as a form, as JSON or as plain bytes.
 */
export const requestIdentity = ({ customerId, filename, manufacturer, additionalData, content }: Upload): string =>
  JSON.stringify([customerId, filename, manufacturer, additionalData, content?.sha256 ?? null]);

/** Whether the `Idempotency-Key` of an upload that was received at a time is still kept. */
export const isKeptUnderKey = (receivedAt: Date, now = Date.now()): boolean =>
  now - receivedAt.getTime() < IDEMPOTENCY_PERIOD_MS;
