/**
 * How many bytes of all long request bodies together may be processed in one iteration of the event loop. Hashing this
 * many bytes takes about 1.5 ms.
 */
const BYTES_PER_ITERATION = 512 * 1024;
/**
 * New connections hold back the processing of long request bodies, but for no longer than LONGEST_WAIT_MS milliseconds.
 * After a delay of that length, new connections don't hold bodies back for the next REST_MS milliseconds.
 */
const LONGEST_WAIT_MS = 200;
const REST_MS = 1_000;

interface Waiting {
  readonly bytes: number;
  readonly resolve: () => void;
}

/**
 * Limits how many bytes of long request bodies are processed in one iteration of the event loop. Bodies are served in
 * the order in which they ask. So iterations stay short however many clients send long bodies, and a health check,
 * which takes several iterations, is answered soon.
 *
 * While clients connect, long bodies wait (200 ms at most), so that those iterations are even shorter. Node.js accepts
 * one connection per iteration, so the last of a hundred new clients waits for a hundred iterations.
 */
export class BodyPace {
  private readonly waiting: Waiting[] = [];
  /** The number of bytes that were granted to bodies in this iteration of the event loop. */
  private granted = 0;
  private isScheduled = false;
  private hasArrived = false;
  private isHeldBack = false;
  /**
   * `heldUntil`: the time at which long bodies go on even if clients still connect. `restUntil`: the time from which
   * new connections may hold long bodies back again. Both by `performance.now()`.
   */
  private heldUntil = 0;
  private restUntil = 0;

  /** Reports a new connection of a client. Must be called for each new connection. */
  arrived(): void {
    this.hasArrived = true;
    const now = performance.now();
    if (this.isHeldBack || now < this.restUntil) return;
    this.heldUntil = now + LONGEST_WAIT_MS;
    this.isHeldBack = true;
    this.schedule();
  }

  /**
   * Must be called before the service uses a chunk of a long request body. Returns undefined if the chunk may be used
   * at once. Otherwise returns a promise that resolves in a later iteration of the event loop, when the chunk may be
   * used.
   *
   * @param bytes the cost of the chunk: its length in bytes, plus the weighted length of its framing.
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
