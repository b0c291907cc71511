import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../common/service-error.js';
import { declaredLength } from './exchange.js';
import { CODING_OVERHEAD_BYTES, contentCoding, isJsonCoding } from './json-body.js';

/** @throws ServiceError `payload-too-large` when the request says that its body is longer. */
export function assertDeclaredLength({ headers }: IncomingMessage, maxBytes: number): void {
  if ((declaredLength(headers) ?? 0) > maxBytes) throw new ServiceError('payload-too-large');
}

/**
 * The length that a JSON body declares; one that is compressed may be a little longer than what is in it.
 *
 * @throws ServiceError `payload-too-large`
 */
export function assertDeclaredJsonLength(request: IncomingMessage, maxBytes: number): void {
  const overhead = contentCoding(request) === 'identity' ? 0 : CODING_OVERHEAD_BYTES;
  assertDeclaredLength(request, maxBytes + overhead);
}

/** @throws ServiceError `unsupported-media-type` for a Content-Encoding that a JSON body may not have. */
export function assertJsonCoding(request: IncomingMessage): void {
  const coding = contentCoding(request);
  if (coding !== 'identity' && !isJsonCoding(coding)) throw new ServiceError('unsupported-media-type');
}

/** @throws ServiceError `unsupported-media-type` for any Content-Encoding but identity. */
export function assertIdentityCoding(request: IncomingMessage): void {
  if (contentCoding(request) !== 'identity') throw new ServiceError('unsupported-media-type');
}
