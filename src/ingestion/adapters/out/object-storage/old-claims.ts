import { HOUR_MS } from '../../../../common/durations.js';
import type { Bucket, ListedObject } from './bucket.js';
import { CLAIMS } from './keys.js';
import { removeListed } from './remove-listed.js';

const CLAIM_AGE_MS = 25 * HOUR_MS;

export interface ClaimRemovalOptions {
  readonly dryRun?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Removes the claims that were last written more than 25 hours ago by the store's clock. Rejects with errors of the
 * bucket, and with the signal's reason.
 *
 * If a new upload takes over a claim between its listing and its removal, the claim is lost until it is rebuilt
 * (`LostClaims`). This happens only if a client uses a key again after more than a day, at that very moment.
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
