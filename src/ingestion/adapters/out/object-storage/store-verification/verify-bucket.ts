import { StoreVerification, type VerificationOptions } from '../../../../application/store-verification/store-verification.js';
import type { Bucket } from '../bucket.js';
import { openBucketView } from './bucket-view.js';

/**
 * Verifies what is kept in a bucket, also while services are running on it. Doesn't close the bucket.
 *
 * @returns the findings; iterating them rejects with NoStoreError when nothing is kept there, and with what the bucket
 *   throws when it can't be listed.
 */
export const verifyBucket = (bucket: Bucket, options: VerificationOptions = {}): StoreVerification =>
  new StoreVerification(() => openBucketView(bucket), options);
