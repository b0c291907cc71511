import { StoreVerification, type VerificationOptions } from '../../../../application/store-verification/store-verification.js';
import type { Bucket } from '../bucket.js';
import { openBucketView } from './bucket-view.js';

/**
 * Verifies the contents of a bucket. Services may be running on it. Doesn't close the bucket.
 *
 * @returns the findings; iterating them rejects with NoStoreError if the bucket contains no store, and with errors of
 *   the bucket if it can't be listed.
 */
export const verifyBucket = (bucket: Bucket, options: VerificationOptions = {}): StoreVerification =>
  new StoreVerification(() => openBucketView(bucket), options);
