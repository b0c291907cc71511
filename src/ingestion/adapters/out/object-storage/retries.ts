import type { StorageLogger } from '../../../application/storage-logger.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Retries operations until they succeed, such as undoing what a store may have done. Only the first failure of each is
 * logged, and one after closing.
 */
export class Retries {
  private readonly running = new Set<Promise<void>>();
  private readonly waking = new Set<() => void>();
  private isClosing = false;

  constructor(private readonly logger: StorageLogger) {}

  /** Number of operations that haven't succeeded yet. */
  get size(): number {
    return this.running.size;
  }

  /**
   * Starts an operation at once.
   *
   * @param what names the operation in the log.
   */
  begin(what: string, action: () => Promise<unknown>): void {
    const run = this.run(what, action).finally(() => this.running.delete(run));
    this.running.add(run);
  }

  /** Resolves when each operation has been tried at most once more. */
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
