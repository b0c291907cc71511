import type { Observer } from '../../common/observer.js';
import { ServiceError } from '../../common/service-error.js';
import { measuredCalls } from './measured-calls.js';
import type { Metrics } from './metrics.js';

/**
 * Returns observers that count the calls to a bucket and the repeated requests, and measure how long the calls take.
 *
 * The outcome of a call is `ok`, `failed`, or `aborted`. An upload to the bucket is aborted if its bytes end early or
 * are refused, for example because the client disconnected. The bucket isn't the cause then.
 */
export const measuredBucket = (metrics: Metrics): { readonly observeCall: Observer; readonly onRetry: () => void } => ({
  observeCall: measuredCalls(metrics.bucketCalls, (error) => (error instanceof ServiceError && error.kind !== 'storage-failure' ? 'aborted' : 'failed')),
  onRetry: () => { metrics.bucketRetries.inc(); },
});
