import type { EventEmitter } from 'node:events';
import { FairQueue } from '../common/fair-queue.js';
import { ServiceError } from '../common/service-error.js';

/** Few slots, because decoding a body takes a thread, and memory that can't be predicted from the body's length. */
const SLOTS = 4;
/**
 * After two seconds, a slot goes to the next body even if its own isn't decoded yet, so that slow clients don't block
 * others.
 */
const MAX_HELD_MS = 2_000;

/** Slots for decoding compressed request bodies. */
export class DecodingSlots {
  private free = SLOTS;
  private readonly waiting = new FairQueue<() => void>();

  get waitingCount(): number {
    return this.waiting.length;
  }

  /**
   * Waits for a slot for the body of a request on this connection. Resolves to a function that frees the slot, which is
   * freed after two seconds at the latest.
   *
   * @throws ServiceError `client-aborted` when the connection is lost before.
   */
  async take(connection: EventEmitter & { readonly destroyed?: boolean }): Promise<() => void> {
    if (this.free > 0) this.free -= 1;
    else if (connection.destroyed || !(await this.passed(connection))) throw new ServiceError('client-aborted', 'The client disconnected.');
    let isOver = false;
    const end = (): void => {
      clearTimeout(timer);
      if (!isOver) this.pass();
      isOver = true;
    };
    const timer = setTimeout(end, MAX_HELD_MS).unref();
    return end;
  }

  /** Waits for a slot that another body passes on. @returns false if the connection was lost before. */
  private passed(connection: EventEmitter): Promise<boolean> {
    return new Promise((resolve) => {
      const begin = (): void => {
        connection.off('close', giveUp);
        resolve(true);
      };
      const giveUp = (): void => {
        this.waiting.remove((each) => each === begin);
        resolve(false);
      };
      connection.once('close', giveUp);
      this.waiting.push(begin);
    });
  }

  private pass(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

/**
 * Short bodies get a slot once they have arrived. Long ones share other slots with bodies that are still arriving, whose
 * clients may be slow.
 */
export const decodingSlots = { arrived: new DecodingSlots(), arriving: new DecodingSlots() };
