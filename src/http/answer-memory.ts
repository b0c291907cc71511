import type { ServerResponse } from 'node:http';
import { answerMemory, type MemoryBudget } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';

/**
 * The memory of one answer with long index lines, from a budget that such answers share. Released at the latest when
 * the response closes.
 */
export class AnswerMemory {
  private readonly held;
  private isReleased = false;
  private readonly onClose = (): void => {
    this.release();
  };

  constructor(
    private readonly response: ServerResponse,
    budget: MemoryBudget = answerMemory,
  ) {
    this.held = budget.hold('answer');
    response.once('close', this.onClose);
  }

  /**
   * Takes memory, and waits if the budget is used up. Must not be called again before the previous call has settled.
   *
   * @throws ServiceError `client-aborted` if the response closes or `release` is called before the memory is granted.
   */
  async take(bytes: number): Promise<void> {
    if (!this.isReleased) await this.held.take(bytes);
    if (this.isReleased) throw new ServiceError('client-aborted', 'The client disconnected.');
  }

  giveBack(bytes: number): void {
    this.held.giveBack(bytes);
  }

  shrinkTo(bytes: number): void {
    this.held.shrinkTo(bytes);
  }

  /** Releases all memory of the answer, and makes waiting and later calls of `take` throw. Idempotent. */
  release(): void {
    this.isReleased = true;
    this.response.off('close', this.onClose);
    this.held.release();
  }
}
