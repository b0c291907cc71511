import { setTimeout as delay } from 'node:timers/promises';
import { OutcomeUnknown } from '../provider-api/api-failure.js';
import type { ListOperations, Operation } from '../provider-api/operation.js';

const AGAIN_AFTER_MS = 500;

/**
 * Makes the calls that read one list from Auth0. A call whose answer was lost (`OutcomeUnknown`) may be made again, so
 * that it doesn't end a list of a thousand calls.
 */
export class ListCalls {
  private hasFailed = false;

  constructor(private readonly operations: ListOperations) {}

  /**
   * @param call must be harmless when repeated.
   * @returns undefined, after a pause of half a second, when the caller must make the call again.
   * @throws the error of `call` if the previous call failed too, the error isn't `OutcomeUnknown`, or the signal has
   * aborted.
   */
  async make<Result>(call: (operation: Operation) => Promise<Result>): Promise<Result | undefined> {
    try {
      const result = await call(this.operations.next());
      this.hasFailed = false;
      return result;
    } catch (error) {
      if (this.hasFailed || !(error instanceof OutcomeUnknown) || this.operations.signal.aborted) throw error;
      this.hasFailed = true;
      await delay(AGAIN_AFTER_MS);
      return undefined;
    }
  }
}
