import { setTimeout } from 'node:timers/promises';
import { OutcomeUnknown } from '../provider-api/api-failure.js';
import type { ListTurns } from '../provider-api/call-turns.js';

const AGAIN_AFTER_MS = 500;

/**
 * The calls that read a list, one after the other. One answer in a thousand doesn't end a list of a thousand calls: only the
 * second of two failures does.
 */
export class ListCalls {
  private hasFailed = false;

  constructor(private readonly turns: ListTurns) {}

  /**
   * @param call does no harm when it is done twice.
   * @returns undefined, half a second later, where it has failed for once, and is to be made again.
   * @throws what `call` does, where the one before has failed as well, or it says more than that the outcome is unknown.
   */
  async make<Result>(call: (signal: AbortSignal) => Promise<Result>): Promise<Result | undefined> {
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
