/** Repeats attempts in the background. The pauses between attempts don't keep the process alive. */
export class BackgroundRetries {
  private readonly running = new Set<Promise<void>>();
  private readonly wakers = new Set<() => void>();
  private closed = false;

  get size(): number {
    return this.running.size;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /**
   * Calls `attempt` until it resolves to undefined, then resolves.
   *
   * @param attempt resolves to the pause before the next attempt in milliseconds, or to undefined when no further
   * attempt is needed. Must not reject. After `close`, must resolve to undefined.
   * @param first the pause in milliseconds before the first attempt, or the promise of an attempt that has already
   * begun; undefined if no attempt is needed.
   */
  repeat(attempt: () => Promise<number | undefined>, first: number | undefined | Promise<number | undefined>): Promise<void> {
    const run = this.run(attempt, first).finally(() => this.running.delete(run));
    this.running.add(run);
    return run;
  }

  /** Ends all pauses, so that the next attempts are made at once. Resolves when all `repeat` calls have ended. */
  async close(): Promise<void> {
    this.closed = true;
    for (const wake of this.wakers) wake();
    await Promise.all(this.running);
  }

  private async run(attempt: () => Promise<number | undefined>, first: number | undefined | Promise<number | undefined>): Promise<void> {
    for (let pauseMs = await first; pauseMs !== undefined; pauseMs = await attempt()) await this.pause(pauseMs);
  }

  private async pause(pauseMs: number): Promise<void> {
    if (this.closed) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.wakers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, pauseMs).unref();
      this.wakers.add(wake);
    });
  }
}
