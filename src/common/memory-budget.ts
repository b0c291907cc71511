const MIB = 1024 * 1024;
/** What the bodies of all requests may hold together, in bytes. */
const BUDGET_BYTES = 96 * MIB;
/** Memory is short when somebody has waited for it for so many milliseconds. */
const SHORT_AFTER_MS = 1_000;

/** The rate at which a client must send while it holds memory and memory is short, in bytes per millisecond. */
export const LEAST_RATE = 16;

/** Those who wait for memory of one kind. */
export interface MemoryLine {
  /** Since when the first of them waits, by `performance.now()`; undefined when nobody waits. */
  readonly waitingSince: number | undefined;
  /** Called when there may be memory for the next of them. */
  serve(): void;
}

/**
 * The memory that the bodies of all requests of a process share. There is one line for each kind of use. A kind may use
 * more than half of the budget only while no other kind waits: so each gets its turn, and a request that holds memory of
 * one kind may wait for the other.
 */
export class MemoryBudget {
  private readonly shares: MemoryShare[] = [];

  constructor(readonly bytes = BUDGET_BYTES) {}

  /** @param mostBytes what this kind may use in all. */
  share(line: MemoryLine, mostBytes = this.bytes): MemoryShare {
    const share = new MemoryShare(this, line, mostBytes);
    this.shares.push(share);
    return share;
  }

  /** Whether somebody has waited for a second. */
  get isShort(): boolean {
    const since = performance.now() - SHORT_AFTER_MS;
    return this.shares.some(({ line }) => line.waitingSince !== undefined && line.waitingSince <= since);
  }

  /** Whether so many bytes more can be had by a share. */
  allows(share: MemoryShare, bytes: number): boolean {
    const others = this.shares.filter((other) => other !== share);
    const usedByOthers = others.reduce((sum, other) => sum + other.usedBytes, 0);
    const used = share.usedBytes + bytes;
    // What is longer than its half comes one by one.
    if (bytes > this.bytes / 2) return share.usedBytes === 0;
    const isOthersTurn = others.some(({ line }) => line.waitingSince !== undefined);
    return used <= share.mostBytes && used + usedByOthers <= this.bytes && (used <= this.bytes / 2 || !isOthersTurn);
  }

  /** Lets those go on who wait for memory, first of all who has waited longest. */
  serve(): void {
    const lines = this.shares.map(({ line }) => line).filter(({ waitingSince }) => waitingSince !== undefined);
    for (const line of lines.sort((a, b) => (a.waitingSince ?? 0) - (b.waitingSince ?? 0))) line.serve();
  }
}

/** What one kind of use has of a `MemoryBudget`. */
export class MemoryShare {
  private used = 0;

  constructor(
    private readonly budget: MemoryBudget,
    readonly line: MemoryLine,
    readonly mostBytes: number,
  ) {}

  get usedBytes(): number {
    return this.used;
  }

  /** Whether memory is short, for whatever kind of use. */
  get isShort(): boolean {
    return this.budget.isShort;
  }

  /** @returns false, and takes nothing, when there is too little; the line is served when there may be more. */
  take(bytes: number): boolean {
    if (!this.budget.allows(this, bytes)) return false;
    this.used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.used -= bytes;
    this.budget.serve();
  }
}

/** The budget of this process. */
export const processMemory = new MemoryBudget();
