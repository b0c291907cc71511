import { MIB } from '../common/sizes.js';

/** Together, long bodies get about 512 KiB per iteration of the event loop. That takes the main thread about 0.7 ms. */
const BYTES_PER_ITERATION = 512 * 1024;
/**
 * A body that is alone in an iteration may get 2 MiB, the most that Node.js reads from a connection in one iteration.
 * Pausing the connection every 512 KiB would make a large upload about 4 % slower.
 */
const BYTES_OF_ONE_BODY = 2 * MIB;
const MAX_WAIT_MS = 200;
const REST_MS = 1_000;

interface Waiting {
  readonly body: object;
  readonly bytes: number;
  readonly resolve: () => void;
}

/**
 * Limits how many bytes of long request bodies are processed in one iteration of the event loop. So a health check,
 * which takes several iterations, is answered soon however many clients send long bodies.
 *
 * Long bodies also wait while new clients keep connecting, because Node.js accepts only one connection per iteration.
 * This wait lasts at most 200 ms; after one of that length, there is none for a second.
 */
export class BodyPace {
  private readonly waiting: Waiting[] = [];
  private granted = 0;
  private only: object | undefined;
  private isScheduled = false;
  private hasArrived = false;
  private isHeldBack = false;
  private heldUntil = 0;
  private restUntil = 0;

  get waitingCount(): number {
    return this.waiting.length;
  }

  /** Must be called for each new connection of a client. */
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
   * at once, otherwise a promise that resolves when it may.
   *
   * @param body any object, the same one for all chunks of a body.
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

/** The one `BodyPace` of the process: all request bodies share one event loop. */
export const bodyPace = new BodyPace();
