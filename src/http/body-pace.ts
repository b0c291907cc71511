/**
 * How many bytes of long request bodies may be used in one iteration of the event loop, all bodies together. Hashing
 * this many bytes takes about 1.5 ms.
 */
const BYTES_PER_ITERATION = 512 * 1024;
/**
 * While clients connect, long request bodies get no bytes for at most LONGEST_WAIT_MS milliseconds. If they were held
 * back for that long, they aren't held back again for REST_MS milliseconds.
 */
const LONGEST_WAIT_MS = 200;
const REST_MS = 1_000;

interface Waiting {
  readonly bytes: number;
  readonly resolve: () => void;
}

/**
 * Limits how many bytes of long request bodies are used in one iteration of the event loop. The bodies get their bytes
 * in the order in which they ask. So the iterations stay short however many clients send long bodies, and a health
 * check, which takes several iterations, is answered soon.
 *
 * While clients connect, long bodies get no bytes. Node.js accepts one connection per iteration, so the last of a
 * hundred clients waits for a hundred iterations.
 */
export class BodyPace {
  private readonly waiting: Waiting[] = [];
  /** The number of bytes that were granted to bodies in this iteration of the event loop. */
  private granted = 0;
  private isScheduled = false;
  private hasArrived = false;
  private isHeldBack = false;
  /**
   * `heldUntil`: the time until which long bodies are held back at most. `restUntil`: the time before which they aren't
   * held back again. Both by `performance.now()`.
   */
  private heldUntil = 0;
  private restUntil = 0;

  /** Reports a new connection of a client. Must be called for each one. */
  arrived(): void {
    this.hasArrived = true;
    const now = performance.now();
    if (this.isHeldBack || now < this.restUntil) return;
    this.heldUntil = now + LONGEST_WAIT_MS;
    this.isHeldBack = true;
    this.schedule();
  }

  /**
   * Must be called before the service uses a chunk of a long request body. Returns undefined if it may use the chunk at
   * once. Otherwise returns a promise that resolves in a later iteration of the event loop, when it may.
   *
   * @param bytes the length of the chunk.
   */
  next(bytes: number): Promise<void> | undefined {
    this.schedule();
    if (!this.isHeldBack && this.waiting.length === 0 && this.granted < BYTES_PER_ITERATION) {
      this.granted += bytes;
      return undefined;
    }
    return new Promise((resolve) => this.waiting.push({ bytes, resolve }));
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => {
      this.isScheduled = false;
      this.beginIteration();
    });
  }

  private beginIteration(): void {
    this.granted = 0;
    if (this.isHeldBack) this.lookForArrivals();
    if (!this.isHeldBack) this.grant();
    if (this.isHeldBack || this.waiting.length > 0) this.schedule();
  }

  private lookForArrivals(): void {
    const now = performance.now();
    const isOver = now >= this.heldUntil;
    if (isOver) this.restUntil = now + REST_MS;
    this.isHeldBack = this.hasArrived && !isOver;
    this.hasArrived = false;
  }

  private grant(): void {
    while (this.granted < BYTES_PER_ITERATION) {
      const next = this.waiting.shift();
      if (!next) return;
      this.granted += next.bytes;
      next.resolve();
    }
  }
}

/** The one pace for all long request bodies of the process, because the process has one event loop. */
export const bodyPace = new BodyPace();
