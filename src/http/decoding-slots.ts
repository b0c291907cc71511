import { FairQueue } from '../common/fair-queue.js';

/**
 * How many bodies are decoded at once. Each takes a thread, and an amount of memory that can't be known from its
 * length.
 */
const SLOTS = 4;
/**
 * How long a body keeps its slot, in milliseconds. After that the next body may begin, so that slow clients don't block
 * others.
 */
const LONGEST_TURN_MS = 2_000;

/** Limits how many compressed bodies are decoded at once. The others wait in a `FairQueue`. */
export class DecodingSlots {
  private free = SLOTS;
  private readonly waiting = new FairQueue<() => void>();

  /** Waits for a slot. Resolves to a function that frees it. That function is idempotent. */
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
