/** Repeats attempts in the background, with pauses that keep no process alive. */
export class BackgroundRetries {
  private readonly running = new Set<Promise<void>>();
  /** Ends a pause. */
  private readonly wakers = new Set<() => void>();
  private closed = false;

  /** How many attempts are being repeated. */
  get size(): number {
    return this.running.size;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /**
   * Repeats an attempt until no other one is needed.
   *
   * @param attempt resolves to the pause before the next attempt, in milliseconds; to undefined when none is needed.
   * Must not reject. Once this is closed, it is called once more at most, and must need no other one.
   * @param first the pause before the first attempt, or the first attempt itself.
   */
  repeat(attempt: () => Promise<number | undefined>, first: number | undefined | Promise<number | undefined>): Promise<void> {
    const run = this.run(attempt, first).finally(() => this.running.delete(run));
    this.running.add(run);
    return run;
  }

  /** Ends all pauses, so that the attempts after them are made at once. Resolves when the last attempts have ended. */
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
