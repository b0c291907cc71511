import { FairQueue } from '../common/fair-queue.js';

/** Few slots, because decoding a body takes a thread, and an amount of memory that the body's length doesn't tell. */
const SLOTS = 4;
/** After two seconds, a slot passes on even if its body isn't decoded yet, so that slow clients don't block others. */
const MAX_TURN_MS = 2_000;

/** Slots for decoding compressed request bodies. */
export class DecodingSlots {
  private free = SLOTS;
  private readonly waiting = new FairQueue<() => void>();

  get waitingCount(): number {
    return this.waiting.length;
  }

  /**
   * Waits for a slot. Resolves to a function that frees the slot. The slot is freed after two seconds at the latest.
   */
  async take(): Promise<() => void> {
    if (this.free === 0) await new Promise<void>((resolve) => { this.waiting.push(resolve); });
    else this.free -= 1;
    let isOver = false;
    const end = (): void => {
      clearTimeout(timer);
      if (!isOver) this.pass();
      isOver = true;
    };
    const timer = setTimeout(end, MAX_TURN_MS).unref();
    return end;
  }

  private pass(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

export const decodingSlots = new DecodingSlots();
