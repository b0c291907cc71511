import { BackgroundRetries } from '../../../../common/background-retries.js';
import type { StorageLogger } from '../../../application/storage-logger.js';

const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 5_000;

/**
 * Retries operations on the store in the background until they succeed, such as undoing a write that the store may have
 * carried out. Logs the first failure of each operation. A failure after `close` is logged too, and ends the operation.
 */
export class Retries {
  private readonly retries = new BackgroundRetries();

  constructor(
    private readonly logger: StorageLogger,
    private readonly longestPauseMs = MAX_PAUSE_MS,
  ) {}

  get size(): number {
    return this.retries.size;
  }

  /**
   * Runs an operation now, and again with growing pauses until it succeeds, or fails after `close`. `what` names the
   * operation in the log.
   */
  begin(what: string, action: () => Promise<unknown>): void {
    let nextPauseMs = FIRST_PAUSE_MS;
    const attempt = async (): Promise<number | undefined> => {
      try {
        await action();
        return undefined;
      } catch (error) {
        if (this.retries.isClosed) {
          this.logger.warn(`${what} failed while stopping; another process may complete it.`, error);
          return undefined;
        }
        if (nextPauseMs === FIRST_PAUSE_MS) this.logger.warn(`${what} failed; retrying until it succeeds.`, error);
        const pauseMs = nextPauseMs;
        nextPauseMs = Math.min(pauseMs * 2, this.longestPauseMs);
        return pauseMs;
      }
    };
    void this.retries.repeat(attempt, attempt());
  }

  async close(): Promise<void> {
    await this.retries.close();
  }
}
