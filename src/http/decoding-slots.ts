import { FairQueue } from '../common/fair-queue.js';

/**
 * The number of slots. Decoding a body takes a thread, and an amount of memory that can't be known from the body's
 * length.
 */
const SLOTS = 4;
/**
 * How long a body keeps its slot at most, in milliseconds. Then the slot passes to the next body although the first one
 * is still being decoded, so that slow clients don't block others.
 */
const LONGEST_TURN_MS = 2_000;

/** Slots for decoding compressed bodies. Bodies without a slot wait in a `FairQueue`. */
export class DecodingSlots {
  private free = SLOTS;
  private readonly waiting = new FairQueue<() => void>();

  /**
   * Waits for a slot. Resolves to an idempotent function that frees the slot. After two seconds the slot is freed
   * anyway.
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
    const timer = setTimeout(end, LONGEST_TURN_MS).unref();
    return end;
  }

  private pass(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

/** The slots shared by the whole process. */
export const decodingSlots = new DecodingSlots();
