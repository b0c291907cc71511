import { noLongerAwaited } from '../../../application/ports/awaited.js';

/** Runs asynchronous work one piece at a time, in the order of the calls. */
export class WorkQueue {
  private isBusy = false;
  private readonly waiting = new Set<() => void>();

  /**
   * Runs work after all earlier work has settled. Settles as the work does. If no earlier work is left, the work starts
   * before `run` returns.
   *
   * @param signal ends the wait when it aborts. It has no effect on work that has started.
   * @throws ProviderUnavailable, without running the work, if the signal aborts before the work starts.
   */
  async run<Result>(work: () => Result | Promise<Result>, signal?: AbortSignal): Promise<Result> {
    if (signal?.aborted) throw noLongerAwaited(signal);
    if (this.isBusy) await this.turn(signal);
    this.isBusy = true;
    try {
      return await work();
    } finally {
      const [next] = this.waiting;
      if (next) next();
      else this.isBusy = false;
    }
  }

  private turn(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        this.waiting.delete(begin);
        signal?.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = () => {
        this.waiting.delete(begin);
        if (signal) reject(noLongerAwaited(signal));
      };
      this.waiting.add(begin);
      signal?.addEventListener('abort', giveUp, { once: true });
    });
  }
}
