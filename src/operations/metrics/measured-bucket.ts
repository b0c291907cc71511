import type { Observer } from '../../common/observer.js';
import type { Metrics } from './metrics.js';

/**
 * Returns observers that count the calls to a bucket and the repeated requests, and measure how long the calls take.
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
      } finally {
        stop();
        metrics.bucketCallsInProgress -= 1;
        metrics.bucketCalls.inc({ operation, outcome });
      }
    },
    onRetry: () => { metrics.bucketRetries.inc(); },
  };
}
