import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
/** Maximum number of pending operations. Further ones are left to the sweeper. */
const MOST = 1000;

/**
 * Cleanup for a store that didn't answer. Each operation is retried with growing pauses until it succeeds. Keeps no
 * process alive.
 */
export class Leftovers {
  private readonly closing = new AbortController();
  private count = 0;

  constructor() {
    setMaxListeners(MOST, this.closing.signal);
  }

  /** @param times how often the action must succeed */
  add(action: () => Promise<void>, times = 1): void {
    if (this.count === MOST) return;
    this.count++;
    void this.repeat(action, times).finally(() => this.count--);
  }

  /** Abandons the operations that are pending. */
  close(): void {
    this.closing.abort();
  }

  private async repeat(action: () => Promise<void>, times: number): Promise<void> {
    const { signal } = this.closing;
    for (let pauseMs = FIRST_PAUSE_MS, left = times; left > 0; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      // Closing ends the pause.
      await sleep(pauseMs, undefined, { ref: false, signal }).catch(() => undefined);
      if (signal.aborted) return;
      if (await succeeds(action)) left--;
    }
  }
}

const succeeds = (action: () => Promise<void>): Promise<boolean> =>
  action().then(
    () => true,
    () => false,
  );
