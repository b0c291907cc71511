/**
 * How many bytes of all long request bodies together may be processed in one iteration of the event loop. The last
 * chunk may exceed the limit. A body that is alone in an iteration may have more: BYTES_OF_ONE_BODY. Receiving and
 * hashing this many bytes takes the main thread about 0.7 ms.
 */
const BYTES_PER_ITERATION = 512 * 1024;
/**
 * The limit, instead of BYTES_PER_ITERATION, for a body that is the only one processed in an iteration. Not applied to
 * chunks that have waited for the iteration. Node.js reads up to 2 MiB from a connection in one iteration. Pausing the
 * connection four times within 2 MiB would make a large upload about 4 % slower.
 */
const BYTES_OF_ONE_BODY = 2 * 1024 * 1024;
/**
 * New connections hold back the processing of long request bodies, but for no longer than MAX_WAIT_MS milliseconds.
 * After a delay of that length, new connections don't hold bodies back for the next REST_MS milliseconds.
 */
const MAX_WAIT_MS = 200;
const REST_MS = 1_000;

interface Waiting {
  readonly body: object;
  readonly bytes: number;
  readonly resolve: () => void;
}

/**
 * Limits how many bytes of long request bodies are processed in one iteration of the event loop. Bodies are served in
 * the order in which they ask. So iterations stay short however many clients send long bodies, and a health check,
 * which takes several iterations, is answered soon.
 *
 * While clients connect, long bodies wait, so that those iterations are even shorter. After 200 ms they go on, and for
 * the next second new clients don't hold them back. Node.js accepts one connection per iteration, so the last of a
 * hundred new clients waits for a hundred iterations.
 */
export class BodyPace {
  private readonly waiting: Waiting[] = [];
  /** The cost of all chunks that were granted in this iteration of the event loop, in bytes (see `next`). */
  private granted = 0;
  /** The body that was granted all bytes of this iteration; undefined if several bodies were granted bytes, or none. */
  private only: object | undefined;
  private isScheduled = false;
  private hasArrived = false;
  private isHeldBack = false;
  /**
   * `heldUntil`: the time at which long bodies go on even if clients still connect. `restUntil`: the time from which
   * new connections may hold long bodies back again. Both by `performance.now()`.
   */
  private heldUntil = 0;
  private restUntil = 0;

  /** How many chunks wait for an iteration of the event loop. */
  get waitingCount(): number {
    return this.waiting.length;
  }

  /** Reports a new connection of a client. Must be called for each new connection. */
  arrived(): void {
    this.hasArrived = true;
    const now = performance.now();
    if (this.isHeldBack || now < this.restUntil) return;
    this.heldUntil = now + MAX_WAIT_MS;
    this.isHeldBack = true;
    this.schedule();
  }

  /**
   * Must be called before the service uses a chunk of a long request body. Returns undefined if the chunk may be used
   * at once. Otherwise returns a promise that resolves in a later iteration of the event loop, when the chunk may be
   * used.
   *
   * @param body identifies the body.
   * @param bytes the cost of the chunk: its length in bytes, plus the weighted length of its framing.
   */
  next(body: object, bytes: number): Promise<void> | undefined {
    this.schedule();
    const most = this.only === body ? BYTES_OF_ONE_BODY : BYTES_PER_ITERATION;
    if (!this.isHeldBack && this.waiting.length === 0 && this.granted < most) {
      this.grant(body, bytes);
      return undefined;
    }
    return new Promise((resolve) => this.waiting.push({ body, bytes, resolve }));
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
    this.only = undefined;
    if (this.isHeldBack) this.lookForArrivals();
    if (!this.isHeldBack) this.grantWaiting();
    if (this.isHeldBack || this.waiting.length > 0) this.schedule();
  }

  private lookForArrivals(): void {
    const now = performance.now();
    const isOver = now >= this.heldUntil;
    if (isOver) this.restUntil = now + REST_MS;
    this.isHeldBack = this.hasArrived && !isOver;
    this.hasArrived = false;
  }

  private grantWaiting(): void {
    while (this.granted < BYTES_PER_ITERATION) {
      const next = this.waiting.shift();
      if (!next) return;
      this.grant(next.body, next.bytes);
      next.resolve();
    }
  }

  private grant(body: object, bytes: number): void {
    this.only = this.granted === 0 || this.only === body ? body : undefined;
    this.granted += bytes;
  }
}

/** The one pace for all long request bodies of the process, because the process has one event loop. */
export const bodyPace = new BodyPace();
