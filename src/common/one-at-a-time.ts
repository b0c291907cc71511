/** Runs jobs one at a time, in the order of the calls of `run`. */
export class OneAtATime {
  private isBusy = false;
  private readonly waiting = new Set<() => void>();

  /**
   * Runs a job after all earlier ones have ended, whether or not they have failed, and never before `run` returns. The
   * caller of a job goes on before the next job starts.
   *
   * @param signal ends the wait for earlier jobs when it aborts. It has no effect on a job that has started.
   * @throws the reason of the signal, without running the job, if the signal aborts before the job's turn comes.
   */
  async run<T>(job: () => T | Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const wait = this.isBusy ? this.wait(signal) : undefined;
    this.isBusy = true;
    await wait;
    try {
      return await job();
    } finally {
      queueMicrotask(this.beginNext);
    }
  }

  private readonly beginNext = (): void => {
    const [next] = this.waiting;
    if (next) next();
    else this.isBusy = false;
  };

  private wait(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        this.waiting.delete(begin);
        signal?.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = () => {
        this.waiting.delete(begin);
        reject(signal?.reason as Error);
      };
      this.waiting.add(begin);
      signal?.addEventListener('abort', giveUp, { once: true });
    });
  }
}
