/**
 * Long bodies are held back for at most LONGEST_WAIT_MS milliseconds while clients connect. After a wait of that
 * length, no body is held back for REST_MS milliseconds.
 */
const LONGEST_WAIT_MS = 200;
const REST_MS = 1_000;

/**
 * Holds back long bodies while connections arrive. Node.js accepts one connection per iteration of the event loop, so
 * the last of a hundred connections waits for a hundred iterations. A health check may use that connection, so the
 * iterations must be short.
 */
export class Arrivals {
  private readonly waiting: (() => void)[] = [];
  private hasArrived = false;
  private isWatching = false;
  /** Deadline of the current wait, and the earliest start of the next one, by `performance.now()`. */
  private waitUntil = 0;
  private restUntil = 0;

  /** Reports a new connection. Must be called for each one. */
  arrived(): void {
    this.hasArrived = true;
    const now = performance.now();
    if (this.isWatching || now < this.restUntil) return;
    this.waitUntil = now + LONGEST_WAIT_MS;
    this.isWatching = true;
    this.look();
  }

  /**
   * Returns undefined when a body needn't wait: no connections are arriving, or the last wait took its full 200 ms and
   * ended less than a second ago. Otherwise resolves when connections stop arriving, at the latest 200 ms after the
   * first.
   */
  ended(): Promise<void> | undefined {
    if (!this.isWatching) return undefined;
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private look(): void {
    setImmediate(() => {
      const now = performance.now();
      if (this.hasArrived && now < this.waitUntil) {
        this.hasArrived = false;
        this.look();
        return;
      }
      if (this.hasArrived) this.restUntil = now + REST_MS;
      this.isWatching = false;
      for (const resolve of this.waiting.splice(0)) resolve();
    });
  }
}

/** The `Arrivals` shared by the whole process, because the process has one event loop. */
export const arrivals = new Arrivals();
