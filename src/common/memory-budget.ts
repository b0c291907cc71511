import { FairQueue } from './fair-queue.js';

const MIB = 1024 * 1024;
/** What the bodies of all requests may hold together, in bytes. */
const BUDGET_BYTES = 64 * MIB;
/** What one body may hold without asking, in bytes. */
export const FREE_BYTES = 64 * 1024;
/** Memory is short when somebody has waited for it for so many milliseconds. */
const SHORT_AFTER_MS = 1_000;

/**
 * What memory is held for: JSON or a form's text, part of a file on its way to a bucket, the text behind a form's file,
 * or the index line of a long text. A request that holds memory for one of them waits for a later one at most, so that
 * requests never wait in a circle.
 */
export type MemoryUse = 'text' | 'part' | 'rest' | 'line';

interface Waiting {
  readonly held: HeldMemory;
  readonly bytes: number;
  readonly since: number;
  readonly resolve: () => void;
}

/** Those who wait for memory for one use. */
class Queue {
  readonly waiting = new FairQueue<Waiting>();
  /** Gets what it asks for, even beyond the budget, until it gives all of it back: so that somebody always goes on. */
  favoured: HeldMemory | undefined;
}

/**
 * The memory that the bodies of all requests of a process share. Bodies ask for it while they grow; beyond the budget
 * they wait, but for one of each use, which goes on beyond it.
 */
export class MemoryBudget {
  private readonly used: Record<MemoryUse, number> = { text: 0, part: 0, rest: 0, line: 0 };
  private readonly queues: Record<MemoryUse, Queue> = { text: new Queue(), part: new Queue(), rest: new Queue(), line: new Queue() };

  constructor(readonly bytes = BUDGET_BYTES) {}

  /** Memory of one body, or of one part of a file; none yet. */
  hold(use: MemoryUse): HeldMemory {
    return new HeldMemory(this, use);
  }

  /** Bytes that are held for one use. */
  usedFor(use: MemoryUse): number {
    return this.used[use];
  }

  /** Whether somebody has waited for a second. */
  get isShort(): boolean {
    const since = performance.now() - SHORT_AFTER_MS;
    return Object.values(this.queues).some(({ waiting: { oldest } }) => oldest !== undefined && oldest.since <= since);
  }

  /** @see HeldMemory.tryGrow */
  tryTake(held: HeldMemory, bytes: number): boolean {
    const queue = this.queues[held.use];
    if (queue.favoured !== held && (queue.waiting.length > 0 || !this.hasRoomFor(bytes))) return false;
    this.grant(held, bytes);
    return true;
  }

  /** @see HeldMemory.grow */
  take(held: HeldMemory, bytes: number): Promise<void> {
    return new Promise((resolve) => {
      this.queues[held.use].waiting.push({ held, bytes, since: performance.now(), resolve });
      this.serve();
    });
  }

  /** @see HeldMemory.shrinkTo */
  giveBack(held: HeldMemory, bytes: number): void {
    const queue = this.queues[held.use];
    this.used[held.use] -= bytes;
    if (bytes === held.bytes && queue.favoured === held) queue.favoured = undefined;
    held.bytes -= bytes;
    this.serve();
  }

  /** Takes one out of its queue. */
  leave(held: HeldMemory): void {
    this.queues[held.use].waiting.remove((each) => each.held === held)?.resolve();
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

/** What one body, or one part of a file, holds of a `MemoryBudget`. */
export class HeldMemory {
  /** Set by the budget alone. */
  bytes = 0;

  constructor(
    private readonly budget: MemoryBudget,
    readonly use: MemoryUse,
  ) {}

  /** Takes more, where that is to be had at once. */
  tryGrow(bytes: number): boolean {
    return this.budget.tryTake(this, bytes);
  }

  /** Queues for more. Resolves when it is there, or when `release` was called. */
  grow(bytes: number): Promise<void> {
    return this.budget.take(this, bytes);
  }

  /** Gives back what is over. */
  shrinkTo(bytes: number): void {
    if (bytes < this.bytes) this.budget.giveBack(this, this.bytes - bytes);
  }

  /** Gives back everything, and waits no longer. Idempotent. */
  release(): void {
    this.budget.leave(this);
    this.shrinkTo(0);
  }
}

/** The budget of this process. */
export const processMemory = new MemoryBudget();
