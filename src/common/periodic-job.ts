/** Runs a job again and again in the background, one run at a time. The timer doesn't keep the process alive. */
export class PeriodicJob {
  private readonly ending = new AbortController();
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;

  /**
   * @param job must not reject.
   * @param pauseMs called after each run. Returns how long to wait before the next one.
   */
  constructor(
    private readonly job: () => Promise<void>,
    private readonly pauseMs: () => number,
  ) {}

  /** Aborts on `close`. A long run should then end early. */
  get signal(): AbortSignal {
    return this.ending.signal;
  }

  /** Begins the first run after `delayMs` milliseconds; with 0, before `start` returns. */
  start(delayMs: number): void {
    if (delayMs > 0) {
      this.timer = setTimeout(() => { this.start(0); }, delayMs).unref();
      return;
    }
    this.running = this.job().finally(() => {
      if (!this.signal.aborted) this.start(this.pauseMs());
    });
  }

  /** Prevents further runs. Resolves when the run in progress has ended. */
  async close(): Promise<void> {
    this.ending.abort();
    clearTimeout(this.timer);
    await this.running;
  }
}
