/**
 * How many bytes of all long bodies together are used in one iteration of the event loop. Hashing them takes about 1.5
 * ms.
 */
const BYTES_PER_ITERATION = 512 * 1024;
/**
 * Long bodies are held back for at most LONGEST_WAIT_MS milliseconds while clients connect. After a wait of that
 * length, no body is held back for REST_MS milliseconds.
 */
const LONGEST_WAIT_MS = 200;
const REST_MS = 1_000;

interface Waiting {
  readonly bytes: number;
  readonly resolve: () => void;
}

/**
 * Keeps the iterations of the event loop short however many clients send long bodies, so that a health check, which
 * takes several iterations, is answered soon. In each of them, the bodies get a limited number of bytes, in the order
 * in which they ask.
 *
 * The bodies get no bytes while connections arrive. Node.js accepts one connection per iteration, so the last of a
 * hundred waits for a hundred iterations.
 */
export class BodyPace {
  private readonly waiting: Waiting[] = [];
  /** The number of bytes that were granted in this iteration. */
  private granted = 0;
  private isScheduled = false;
  private hasArrived = false;
  private isHeldBack = false;
  /** When bodies are no longer held back, and the earliest time they are held back again, by `performance.now()`. */
  private heldUntil = 0;
  private restUntil = 0;

  /** Reports a new connection. Must be called for each one. */
  arrived(): void {
    this.hasArrived = true;
    const now = performance.now();
    if (this.isHeldBack || now < this.restUntil) return;
    this.heldUntil = now + LONGEST_WAIT_MS;
    this.isHeldBack = true;
    this.schedule();
  }

  /**
   * Must be called before a part of a long body is used. Returns undefined if that may happen at once; otherwise a
   * promise that resolves in a later iteration.
   *
   * @param bytes the length of the part.
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

/** The pace shared by the whole process, because the process has one event loop. */
export const bodyPace = new BodyPace();
