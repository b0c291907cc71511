import { BackgroundRetries } from '../../../../../common/background-retries.js';

const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 60_000;
/** The most pending removals; others are dropped. The `Sweeper` also removes parts of a client's failed upload. */
const MOST = 1000;

/**
 * Removes parts that uploads have left in the store, in the background. Failures are retried with growing pauses, of up
 * to a minute, until `close`.
 */
export class Leftovers {
  private readonly retries = new BackgroundRetries();

  /**
   * Adds a removal of parts, which begins after a second. Does nothing if 1,000 are pending.
   *
   * @param times how many attempts must succeed before the removal ends.
   */
  add(action: () => Promise<void>, times = 1): void {
    if (this.retries.size === MOST) return;
    let left = times;
    let pauseMs = FIRST_PAUSE_MS;
    const attempt = async (): Promise<number | undefined> => {
      if (this.retries.isClosed) return undefined;
      if (await succeeds(action)) left--;
      pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS);
      return left > 0 ? pauseMs : undefined;
    };
    void this.retries.repeat(attempt, pauseMs);
  }

  close(): void {
    void this.retries.close();
  }
}

const succeeds = (action: () => Promise<void>): Promise<boolean> =>
  action().then(
    () => true,
    () => false,
  );
