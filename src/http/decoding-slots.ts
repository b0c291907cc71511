import { FairQueue } from '../common/fair-queue.js';

/**
 * How many compressed request bodies have a slot at once. The number is small, because decoding a body takes a thread,
 * and an amount of memory that can't be known from the body's length.
 */
const SLOTS = 4;
/**
 * The longest time that a body keeps its slot, in milliseconds. Then the slot passes to the next body, even if the
 * first one is still being decoded, so that slow clients don't block others.
 */
const MAX_TURN_MS = 2_000;

/**
 * Slots for decoding compressed request bodies. Bodies without a slot wait in a `FairQueue`, which serves the oldest
 * and the newest alternately.
 */
export class DecodingSlots {
  private free = SLOTS;
  private readonly waiting = new FairQueue<() => void>();

  /** How many bodies wait for a slot. */
  get waitingCount(): number {
    return this.waiting.length;
  }

  /**
   * Waits for a slot to decode a body. Resolves to a function that frees the slot; calling that function again does
   * nothing. After two seconds the slot is freed even without a call.
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

/** The slots for decoding compressed request bodies that all requests of the process share. */
export const decodingSlots = new DecodingSlots();
