import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../../../common/service-error.js';

/**
 * The `Idempotency-Key` of a request, unchanged; null if it is missing (`Sending the file itself`).
 *
 * @throws ServiceError `invalid-idempotency-key` unless it is 1-255 visible ASCII characters.
 */
export function idempotencyKeyOf({ headers }: IncomingMessage): string | null {
  const key = headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || !/^[!-~]{1,255}$/.test(key)) throw new ServiceError('invalid-idempotency-key');
  return key;
}
