import type { Bucket, ListedObject } from './bucket.js';
import { CLAIMS } from './keys.js';
import { removeListed } from './remove-listed.js';

const CLAIM_AGE_MS = 25 * 60 * 60_000;

export interface ClaimRemovalOptions {
  /** Whether to only count the old claims, and remove none. */
  readonly dryRun?: boolean;
  /** Stops the removal when it comes to the next claim. The call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Removes the claims of expired idempotency keys: the claims that were last written more than 25 hours ago by the
 * store's clock.
 *
 * If a new upload takes over a claim between its listing and its removal, the claim is removed nevertheless. Until the
 * claim is rebuilt (`LostClaims`), a repetition of the new upload's request is stored as a second upload. This happens
 * only if a client uses a key again after more than a day, at that very moment.
 *
 * @returns the number of claims that were removed; in a dry run, the number of those that would be.
 */
export function removeOldClaims(bucket: Bucket, { dryRun = false, signal }: ClaimRemovalOptions = {}): Promise<number> {
  const isOld = ({ ageMs }: ListedObject): boolean => {
    signal?.throwIfAborted();
    return ageMs > CLAIM_AGE_MS;
  };
  return removeListed(bucket, CLAIMS, isOld, { dryRun });
}
