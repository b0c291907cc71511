import type { Bucket } from './bucket.js';
import { CLAIMS } from './keys.js';

const CLAIM_AGE_MS = 25 * 60 * 60_000;
const CLAIMS_AT_ONCE = 1_000;

export interface ClaimRemovalOptions {
  /** Whether to only count the old claims, and remove none. */
  readonly dryRun?: boolean;
  /** Stops the removal of claims at the next claim. The call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Removes the claims of expired idempotency keys: the claims that were last written more than 25 hours ago by the
 * store's clock.
 *
 * A claim that is rewritten between the listing and its removal is removed too. If the request under that key is then
 * repeated, its upload is stored a second time. This happens only if a client reuses a key after more than a day, at
 * that very moment.
 *
 * @returns the number of claims that were removed; in a dry run, the number of those that would be.
 */
export async function removeOldClaims(bucket: Bucket, { dryRun = false, signal }: ClaimRemovalOptions = {}): Promise<number> {
  let count = 0;
  const keys: string[] = [];
  const removeThem = async () => {
    count += keys.length;
    const batch = keys.splice(0);
    if (!dryRun && batch.length > 0) await bucket.remove(batch);
  };
  for await (const { key, ageMs } of bucket.list(CLAIMS)) {
    signal?.throwIfAborted();
    if (ageMs > CLAIM_AGE_MS) keys.push(key);
    if (keys.length >= CLAIMS_AT_ONCE) await removeThem();
  }
  await removeThem();
  return count;
}
