/** How long bodies wait for connections at most, and how long they then don't, in milliseconds. */
const LONGEST_WAIT_MS = 200;
const REST_MS = 1_000;

/**
 * Lets long bodies wait while connections arrive. Node.js accepts one connection in each iteration of the event loop, so
 * the last of a hundred, which may be a health check, waits for a hundred iterations: these must be short.
 */
export class Arrivals {
  private readonly waiting: (() => void)[] = [];
  private hasArrived = false;
  private isWatching = false;
  /** When the present wait, or the next one, must end or may begin, by `performance.now()`. */
  private waitUntil = 0;
  private restUntil = 0;

  /** To be called for each new connection. */
  arrived(): void {
    this.hasArrived = true;
    const now = performance.now();
    if (this.isWatching || now < this.restUntil) return;
    this.waitUntil = now + LONGEST_WAIT_MS;
    this.isWatching = true;
    this.look();
  }

  /** Undefined when none arrive; otherwise resolves when no more do, or after 200 ms. */
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

/** Of this process, whose event loop is one, too. */
export const arrivals = new Arrivals();
