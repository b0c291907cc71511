import { createHmac } from 'node:crypto';
import { Turns } from '../../../../common/turns.js';

const STEP_BYTES = 256 * 1024;

/**
 * The header `webhook-signature` (Standard Webhooks 1.0): one signature for each secret. Other work can run while a
 * long body is hashed.
 *
 * @param timestamp the header `webhook-timestamp`, in seconds since 1970.
 * @param body the pieces of the body, in their order.
 */
export async function signatureOf(secrets: readonly Uint8Array[], id: string, timestamp: number, body: readonly Buffer[]): Promise<string> {
  const hashes = secrets.map((secret) => createHmac('sha256', secret).update(`${id}.${timestamp}.`));
  const turns = new Turns();
  for (const piece of body) {
    for (let at = 0; at < piece.length; at += STEP_BYTES) {
      if (at > 0 && turns.isOver) await turns.next();
      for (const hash of hashes) hash.update(piece.subarray(at, at + STEP_BYTES));
    }
  }
  return hashes.map((hash) => `v1,${hash.digest('base64')}`).join(' ');
}
