import { setTimeout } from 'node:timers/promises';
import { OutcomeUnknown } from '../provider-api/api-failure.js';
import type { ListTurns, Operation } from '../provider-api/operation.js';

const AGAIN_AFTER_MS = 500;

/**
 * Makes the calls that read a list from Auth0, one after the other. Only two consecutive failed calls end the reading,
 * so that one failed answer in a thousand doesn't end a list of a thousand calls.
 */
export class ListCalls {
  private hasFailed = false;

  constructor(private readonly turns: ListTurns) {}

  /**
   * Makes one call of the list.
   *
   * @param call must be harmless when repeated.
   * @returns the result of the call. Undefined, after a pause of half a second, when the call failed and the caller
   * must make it again.
   * @throws errors of `call`, if the previous call failed too, the error isn't `OutcomeUnknown`, or the list was
   * aborted.
   */
  async make<Result>(call: (operation: Operation) => Promise<Result>): Promise<Result | undefined> {
    try {
      const result = await call(this.turns.next());
      this.hasFailed = false;
      return result;
    } catch (error) {
      if (this.hasFailed || !(error instanceof OutcomeUnknown) || this.turns.signal.aborted) throw error;
      this.hasFailed = true;
      await setTimeout(AGAIN_AFTER_MS);
      return undefined;
    }
  }
}
