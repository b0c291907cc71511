import { createHash } from 'node:crypto';
import { escapedJson, forEachPiece } from '../../common/text.js';
import { requestIdentity } from '../domain/idempotency.js';
import { hasLongText } from '../domain/layout.js';
import type { Upload } from '../domain/upload.js';

/**
 * Marks where a long `additional_data` belongs in a `requestIdentity`. No other text of an upload may contain a control
 * character, so there is only one such place.
 */
const PLACEHOLDER = '\u0000';

/** The sha-256 (base64url) of an upload's `requestIdentity`. Yields to other work if `additional_data` is long. */
export function requestDigest(upload: Upload): string | Promise<string> {
  return hasLongText(upload) ? longRequestDigest(upload) : createHash('sha256').update(requestIdentity(upload)).digest('base64url');
}

async function longRequestDigest(upload: Upload): Promise<string> {
  const [before = '', after = ''] = requestIdentity({ ...upload, additionalData: PLACEHOLDER }).split(JSON.stringify(PLACEHOLDER));
  const hash = createHash('sha256').update(`${before}"`);
  await forEachPiece(upload.additionalData ?? '', (piece) => {
    hash.update(escapedJson(piece));
  });
  return hash.update(`"${after}`).digest('base64url');
}
