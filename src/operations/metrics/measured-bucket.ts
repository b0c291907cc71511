import type { Observer } from '../../common/observer.js';
import { ServiceError } from '../../common/service-error.js';
import type { Metrics } from './metrics.js';

/**
 * Returns observers that count the calls to a bucket and the repeated requests, and measure how long the calls take.
 *
 * The outcome of a call is `ok`, `failed`, or `aborted`. An upload to the bucket is aborted if its bytes end early or
 * are refused, for example because the client disconnected. The bucket isn't the cause then.
 */
export function measuredBucket(metrics: Metrics): { readonly observeCall: Observer; readonly onRetry: () => void } {
  return {
    observeCall: async (operation, call) => {
      const stop = metrics.bucketSeconds.startTimer({ operation });
      let outcome = 'failed';
      metrics.bucketCallsInProgress += 1;
      try {
        const result = await call();
        outcome = 'ok';
        return result;
      } catch (error) {
        if (error instanceof ServiceError && error.kind !== 'storage-failure') outcome = 'aborted';
        throw error;
      } finally {
        stop();
        metrics.bucketCallsInProgress -= 1;
        metrics.bucketCalls.inc({ operation, outcome });
      }
    },
    onRetry: () => { metrics.bucketRetries.inc(); },
  };
}
