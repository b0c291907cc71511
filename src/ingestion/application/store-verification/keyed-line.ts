import { idempotencyScope } from '../../domain/idempotency.js';
import type { UploadKind } from '../../domain/upload.js';
import { digestOf } from './digest-set.js';
import { members, type SegmentLine } from './line-splitter.js';

export interface KeyedLine {
  readonly scope: string;
  readonly key: Buffer;
  readonly uploadId: string;
  /** When the upload was received, in milliseconds since 1970. */
  readonly receivedAt: number;
}

/**
 * The members of an index line that are needed to find duplicate idempotency keys and missing claims; undefined if the
 * key, `upload_id` or `customer_id` isn't a text, or `received_at` isn't a time.
 */
export function keyedLine(line: SegmentLine): KeyedLine | undefined {
  const { upload_id: uploadId, kind, customer_id: customerId, idempotency_key: idempotencyKey, received_at: received } = members(line);
  if (typeof uploadId !== 'string' || typeof customerId !== 'string' || typeof idempotencyKey !== 'string') return undefined;
  const receivedAt = Date.parse(String(received));
  const scope = idempotencyScope({ kind: kind as UploadKind, customerId, idempotencyKey });
  return scope === null || Number.isNaN(receivedAt) ? undefined : { scope, key: digestOf(scope), uploadId, receivedAt };
}
