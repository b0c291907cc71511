import { FairQueue } from '../common/fair-queue.js';

/** Bodies that are decoded at once: each takes a thread of its own, and memory that its length doesn't tell. */
const SLOTS = 4;
/** After so many milliseconds the next one may begin, so that slow clients hold nobody up. */
const LONGEST_TURN_MS = 2_000;

/** Lets a few coded bodies be decoded at once. The others wait in a `FairQueue`. */
export class DecodingSlots {
  private free = SLOTS;
  private readonly waiting = new FairQueue<() => void>();

  /** Resolves when decoding may begin, to what is to be called at its end. Idempotent. */
  async take(): Promise<() => void> {
    if (this.free === 0) await new Promise<void>((resolve) => { this.waiting.push(resolve); });
    else this.free -= 1;
    let isOver = false;
    const end = (): void => {
      clearTimeout(timer);
      if (!isOver) this.pass();
      isOver = true;
    };
    const timer = setTimeout(end, LONGEST_TURN_MS).unref();
    return end;
  }

  private pass(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

/** Of this process. */
export const decodingSlots = new DecodingSlots();
