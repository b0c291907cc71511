import { createHmac } from 'node:crypto';
import { Turns } from '../../../../common/turns.js';

/** How many bytes of a request's body are hashed before other work may run. */
const STEP_BYTES = 256 * 1024;

/**
 * The value of the header `webhook-signature` (Standard Webhooks 1.0): one signature for each secret, separated by
 * blanks. A long body is hashed in pieces, between which other work can run.
 *
 * @param id the value of the header `webhook-id`.
 * @param timestamp the value of the header `webhook-timestamp`, in seconds since 1970.
 */
export async function signatureOf(secrets: readonly Uint8Array[], id: string, timestamp: number, body: Buffer): Promise<string> {
  const hashes = secrets.map((secret) => createHmac('sha256', secret).update(`${id}.${timestamp}.`));
  const turns = new Turns();
  for (let at = 0; at < body.length; at += STEP_BYTES) {
    if (at > 0 && turns.isOver) await turns.next();
    for (const hash of hashes) hash.update(body.subarray(at, at + STEP_BYTES));
  }
  return hashes.map((hash) => `v1,${hash.digest('base64')}`).join(' ');
}
