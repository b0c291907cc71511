import type { Observer } from '../../common/observer.js';
import type { CallMetrics } from './metrics.js';

/**
 * Returns an observer that counts calls and measures how long they take. The outcome of a call is `ok`, or what
 * `outcomeOf` returns for its error.
 */
export function measuredCalls(calls: CallMetrics, outcomeOf: (error: unknown) => string): Observer {
  return async (operation, call) => {
    const stop = calls.seconds.startTimer({ operation });
    let outcome = 'ok';
    calls.inProgress += 1;
    try {
      return await call();
    } catch (error) {
      outcome = outcomeOf(error);
      throw error;
    } finally {
      stop();
      calls.inProgress -= 1;
      calls.total.inc({ operation, outcome });
    }
  };
}
