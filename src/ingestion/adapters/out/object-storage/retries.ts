import type { StorageLogger } from '../../../application/storage-logger.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/** Does what must be done in the end, again and again until it comes off: taking back what a store may have done. Only the first failure of each is told. */
export class Retries {
  private readonly running = new Set<Promise<void>>();
  private readonly waking = new Set<() => void>();
  private isClosing = false;

  constructor(private readonly logger: StorageLogger) {}

  /** How many didn't come off yet. */
  get size(): number {
    return this.running.size;
  }

  /** Begins at once; `what` is for the log. */
  begin(what: string, action: () => Promise<unknown>): void {
    const run = this.run(what, action).finally(() => this.running.delete(run));
    this.running.add(run);
  }

  /** Resolves when each has been tried once more at most. */
  async close(): Promise<void> {
    this.isClosing = true;
    for (const wake of this.waking) wake();
    await Promise.all(this.running);
  }

  private async run(what: string, action: () => Promise<unknown>): Promise<void> {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        await action();
        return;
      } catch (error) {
        if (this.isClosing) {
          this.logger.warn(`${what} failed; another process does it, if any can.`, error);
          return;
        }
        if (pause === FIRST_PAUSE_MS) this.logger.warn(`${what} failed; it is tried again until it comes off.`, error);
      }
      await this.wait(pause);
    }
  }

  private wait(pauseMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.waking.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, pauseMs).unref();
      this.waking.add(wake);
    });
  }
}
