import { FairQueue } from './fair-queue.js';
import { KIB, MIB } from './sizes.js';

const BUDGET_BYTES = 64 * MIB;
/** How much memory one body may hold without taking it from the budget, in bytes. */
export const FREE_BYTES = 64 * KIB;
const SHORT_AFTER_MS = 1_000;

/**
 * The uses of memory. `text`: JSON, or a form's text before its file. `part`: part of a file on its way to a bucket.
 * `staged`: bytes that wait to be written to a file on disk; a request never waits for memory of this use. `rest`: a
 * form's text after its file. `line`: an index line with a long text. `download`: chunks of a file on their way to a
 * client; a request never waits for memory of this use either. `answer`: long index lines, and answers with them. A
 * request that holds memory for one use waits only for more memory of that use, or of a later use in this order.
 * Together with `Queue.favoured` (a holder that may exceed the budget), this keeps requests from waiting for each other
 * in a cycle.
 */
export type MemoryUse = 'text' | 'part' | 'staged' | 'rest' | 'line' | 'download' | 'answer';

interface Waiting {
  readonly held: HeldMemory;
  readonly bytes: number;
  readonly since: number;
  readonly resolve: () => void;
}

class Queue {
  readonly waiting = new FairQueue<Waiting>();
  /**
   * A holder that gets all the memory it asks for, even beyond the budget, until it has released all its memory. So
   * requests finish even when the budget is used up, because one of them can always go on.
   */
  favoured: HeldMemory | undefined;
}

/**
 * A limited amount of memory that many holders share. They ask for memory as they grow, and wait when the budget is
 * used up. For each `MemoryUse`, one holder at a time may exceed the budget.
 */
export class MemoryBudget {
  private readonly used: Record<MemoryUse, number> = { text: 0, part: 0, staged: 0, rest: 0, line: 0, download: 0, answer: 0 };
  private readonly queues: Record<MemoryUse, Queue> = { text: new Queue(), part: new Queue(), staged: new Queue(), rest: new Queue(), line: new Queue(), download: new Queue(), answer: new Queue() };

  constructor(readonly bytes = BUDGET_BYTES) {}

  hold(use: MemoryUse): HeldMemory {
    return new HeldMemory(this, use);
  }

  usedFor(use: MemoryUse): number {
    return this.used[use];
  }

  get waitingCount(): number {
    return Object.values(this.queues).reduce((sum, { waiting }) => sum + waiting.length, 0);
  }

  /** Whether a holder has been waiting for memory for at least a second. */
  get isShort(): boolean {
    const since = performance.now() - SHORT_AFTER_MS;
    return Object.values(this.queues).some(({ waiting: { oldest } }) => oldest !== undefined && oldest.since <= since);
  }

  /**
   * Takes memory at once, or returns false. The favoured holder of a use always gets it; any other only if the budget
   * has enough, and no holder waits for memory of the same use.
   */
  tryTake(held: HeldMemory, bytes: number): boolean {
    const queue = this.queues[held.use];
    if (queue.favoured !== held && (queue.waiting.length > 0 || !this.hasRoomFor(bytes))) return false;
    this.grant(held, bytes);
    return true;
  }

  /** Resolves when the memory is granted, or when `leave` removes the holder from the queue. */
  take(held: HeldMemory, bytes: number): Promise<void> {
    return new Promise((resolve) => {
      this.queues[held.use].waiting.push({ held, bytes, since: performance.now(), resolve });
      this.serve();
    });
  }

  giveBack(held: HeldMemory, bytes: number): void {
    const queue = this.queues[held.use];
    this.used[held.use] -= bytes;
    if (bytes === held.bytes && queue.favoured === held) queue.favoured = undefined;
    held.bytes -= bytes;
    this.serve();
  }

  leave(held: HeldMemory): void {
    const left = this.queues[held.use].waiting.remove((each) => each.held === held);
    if (!left) return;
    left.resolve();
    this.serve();
  }

  private hasRoomFor(bytes: number): boolean {
    const used = Object.values(this.used).reduce((sum, each) => sum + each, 0);
    return used + bytes <= this.bytes;
  }

  private grant(held: HeldMemory, bytes: number): void {
    this.used[held.use] += bytes;
    held.bytes += bytes;
  }

  private serve(): void {
    for (const queue of Object.values(this.queues)) {
      for (let { next } = queue.waiting; next; next = queue.waiting.next) {
        if (!this.hasRoomFor(next.bytes)) {
          if (queue.favoured) break;
          queue.favoured = next.held;
        }
        queue.waiting.shift();
        this.grant(next.held, next.bytes);
        next.resolve();
      }
    }
  }
}

/** The memory of a `MemoryBudget` that one holder has. */
export class HeldMemory {
  bytes = 0;

  constructor(
    private readonly budget: MemoryBudget,
    readonly use: MemoryUse,
  ) {}

  tryGrow(bytes: number): boolean {
    return this.budget.tryTake(this, bytes);
  }

  grow(bytes: number): Promise<void> {
    return this.budget.take(this, bytes);
  }

  /**
   * Takes memory. Resolves without memory if `release` is called during the wait. Must not be called again before the
   * previous call has resolved.
   */
  async take(bytes: number): Promise<void> {
    if (!this.tryGrow(bytes)) await this.grow(bytes);
  }

  giveBack(bytes: number): void {
    this.shrinkTo(Math.max(0, this.bytes - bytes));
  }

  shrinkTo(bytes: number): void {
    if (bytes < this.bytes) this.budget.giveBack(this, this.bytes - bytes);
  }

  /** Releases all memory and stops waiting for more. Idempotent. */
  release(): void {
    this.budget.leave(this);
    this.shrinkTo(0);
  }
}

/** The budget for request bodies, their index lines, and bytes on their way to the disk or to a bucket. */
export const processMemory = new MemoryBudget();

/** The budget for answers with long index lines. Separate, so that slow readers of answers don't delay uploads. */
export const answerMemory = new MemoryBudget();
