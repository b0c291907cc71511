import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../common/service-error.js';
import { declaredLength } from './exchange.js';
import { CODING_OVERHEAD_BYTES, contentCoding, isJsonCoding } from './json-body.js';

/** @throws ServiceError `payload-too-large` when the declared Content-Length is over `maxBytes`. */
export function assertDeclaredLength({ headers }: IncomingMessage, maxBytes: number): void {
  if ((declaredLength(headers) ?? 0) > maxBytes) throw new ServiceError('payload-too-large');
}

/**
 * Checks the declared length of a JSON body. A compressed body may be slightly longer than its decoded content.
 *
 * @throws ServiceError `payload-too-large`
 */
export function assertDeclaredJsonLength(request: IncomingMessage, maxBytes: number): void {
  const overhead = contentCoding(request) === 'identity' ? 0 : CODING_OVERHEAD_BYTES;
  assertDeclaredLength(request, maxBytes + overhead);
}

/** @throws ServiceError `unsupported-media-type` for a Content-Encoding that is not accepted for JSON bodies. */
export function assertJsonCoding(request: IncomingMessage): void {
  const coding = contentCoding(request);
  if (coding !== 'identity' && !isJsonCoding(coding)) throw new ServiceError('unsupported-media-type');
}

/** @throws ServiceError `unsupported-media-type` for any Content-Encoding except identity. */
export function assertIdentityCoding(request: IncomingMessage): void {
  if (contentCoding(request) !== 'identity') throw new ServiceError('unsupported-media-type');
}
