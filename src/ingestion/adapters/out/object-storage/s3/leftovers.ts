import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
/** What is beyond it is left to whoever sweeps. */
const MOST = 1000;

/** What is to be given back to a store that didn't answer: tried again, ever more rarely, until it's done. Keeps no process alive. */
export class Leftovers {
  private readonly closing = new AbortController();
  private count = 0;

  /** @param times how often it is to succeed */
  add(action: () => Promise<void>, times = 1): void {
    if (this.count === MOST) return;
    this.count++;
    void this.repeat(action, times).finally(() => this.count--);
  }

  /** Gives up what isn't done. */
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
