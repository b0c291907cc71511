import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LEAST_RATE, type MemoryBudget, type MemoryLine, type MemoryShare, processMemory } from '../../../../common/memory-budget.js';
import { ServiceError } from '../../../../common/service-error.js';

const MIB = 1024 * 1024;
/** How often memory is looked after, while any is in use or kept, in milliseconds. */
const LOOK_EVERY_MS = 250;
/** How long memory that nobody uses is kept, in milliseconds. */
const KEPT_FOR_MS = 10_000;
/** The rate at which a client must fill a part, in bytes per millisecond, and how far it may fall behind, in milliseconds. */
const CALM = { rate: 1, patienceMs: 5 * 60_000 };
const SHORT = { rate: LEAST_RATE, patienceMs: 3_000 };
/** The same when more wait than there are parts. */
const LEAST_PATIENCE_MS = 1_500;

/** After so much was in use, the garbage of the uploads is collected too when the memory goes back; in bytes. */
const MUCH_BYTES = 64 * MIB;

/** Memory for one part of an upload. */
export interface PartBuffer {
  readonly isFull: boolean;
  /** What was put in. Not to be used after `release`. */
  readonly bytes: Buffer;
  /** Copies as much of a chunk as there is room for. @returns bytes */
  fill(chunk: Uint8Array): number;
  /** Ends the watch over its client's rate: nothing is put in any more. */
  endFilling(): void;
  /**
   * Gives the memory back. Idempotent.
   *
   * @param mayBeRead whether a request that failed may still read it; it is left to the garbage collector then.
   */
  release(mayBeRead?: boolean): void;
}

interface Waiter {
  readonly since: number;
  readonly onTooSlow: (error: ServiceError) => void;
  readonly resolve: (part: PartBuffer) => void;
}

/**
 * The memory that the uploads of one bucket have for parts, out of the process's budget. An upload waits until there is
 * some, and isn't read meanwhile. By turns, the next one goes to whoever has sent a part and waited longest, to the newcomer
 * that has waited longest, and to the one that has waited least: so nobody waits for ever, and an upload is served soon
 * beside a crowd that doesn't go on.
 *
 * An upload never waits while it fills a part, and what is being sent comes back when the store has answered or timed
 * out: so uploads can't wait for each other in a circle. A client that fills a part at less than 1 KiB/s over some five
 * minutes, or at less than 16 KiB/s over some three seconds while others have waited for one, loses it with its upload.
 *
 * Memory that nobody used for ten seconds goes back to the operating system.
 */
export class PartMemory implements MemoryLine {
  private readonly share: MemoryShare;
  /** In the order of their asking: those that have sent a part, and others. */
  private readonly proven: Waiter[] = [];
  private readonly newcomers: Waiter[] = [];
  private turn = 0;
  private readonly filling = new Set<Part>();
  /** With the time since when nobody used it; the one that was used last is used first. */
  private readonly idle: { readonly memory: ArrayBuffer; readonly since: number }[] = [];
  private held = 0;
  private mostHeld = 0;
  private timer: NodeJS.Timeout | undefined;

  /** @param partBytes the length of a part. */
  constructor(
    readonly partBytes: number,
    budget: MemoryBudget = processMemory,
  ) {
    this.share = budget.share(this);
  }

  get waitingSince(): number | undefined {
    const [proven, newcomer] = [this.proven[0]?.since, this.newcomers[0]?.since];
    return proven === undefined || newcomer === undefined ? (proven ?? newcomer) : Math.min(proven, newcomer);
  }

  /** Bytes that are in use, or kept for the next upload. */
  get residentBytes(): number {
    return this.held * this.partBytes + this.idle.reduce((sum, { memory }) => sum + memory.byteLength, 0);
  }

  /**
   * Resolves when there is memory for a part.
   *
   * @param isProven whether the upload has sent a part.
   * @param onTooSlow gets a `request-timeout` when the client fills it too slowly; to be released then.
   */
  acquire(isProven: boolean, onTooSlow: (error: ServiceError) => void): Promise<PartBuffer> {
    this.timer ??= setInterval(() => { this.look(); }, LOOK_EVERY_MS).unref();
    return new Promise((resolve) => {
      (isProven ? this.proven : this.newcomers).push({ since: performance.now(), onTooSlow, resolve });
      this.serve();
    });
  }

  serve(): void {
    while (this.waitingSince !== undefined && this.share.take(this.partBytes)) {
      const next = this.next();
      if (!next) return;
      this.held += 1;
      this.mostHeld = Math.max(this.mostHeld, this.held);
      const part = new Part(this.takeMemory(), next.onTooSlow, {
        endFilling: () => this.filling.delete(part),
        release: (mayBeRead) => { this.takeBack(part, mayBeRead); },
      });
      this.filling.add(part);
      next.resolve(part);
    }
  }

  private next(): Waiter | undefined {
    const { proven, newcomers } = this;
    switch (this.turn++ % 3) {
      case 0:
        return proven.shift() ?? newcomers.shift();
      case 1:
        return newcomers.shift() ?? proven.shift();
      default:
        return newcomers.pop() ?? proven.shift();
    }
  }

  private takeMemory(): ArrayBuffer {
    const memory = this.idle.pop()?.memory ?? new ArrayBuffer(0, { maxByteLength: this.partBytes });
    memory.resize(this.partBytes);
    return memory;
  }

  private takeBack(part: Part, mayBeRead: boolean): void {
    this.held -= 1;
    if (!mayBeRead) this.idle.push({ memory: part.memory, since: performance.now() });
    this.share.give(this.partBytes);
  }

  private look(): void {
    const now = performance.now();
    const isCrowded = this.proven.length + this.newcomers.length > this.held;
    const patienceMs = isCrowded ? LEAST_PATIENCE_MS : SHORT.patienceMs;
    const { isShort } = this.share;
    for (const part of this.filling) part.look(now, isShort ? patienceMs : undefined);
    // A resizable buffer gives its pages back when it shrinks; another one when it is collected, perhaps never.
    for (const { memory, since } of this.idle) if (now - since >= KEPT_FOR_MS) memory.resize(0);
    if (this.held > 0 || this.idle.some(({ memory }) => memory.byteLength > 0)) return;
    clearInterval(this.timer);
    this.timer = undefined;
    const wasMuch = this.mostHeld * this.partBytes >= MUCH_BYTES;
    this.mostHeld = 0;
    // Without it what hundreds of uploads left in the heap stays until much else was allocated, in a quiet process for ever.
    if (wasMuch) collectGarbage();
  }
}

class Part implements PartBuffer {
  private readonly buffer: Buffer;
  private length = 0;
  private isReleased = false;
  private calmUntil: number;
  private shortUntil: number;

  constructor(
    readonly memory: ArrayBuffer,
    private readonly onTooSlow: (error: ServiceError) => void,
    private readonly owner: { endFilling(): void; release(mayBeRead: boolean): void },
  ) {
    this.buffer = Buffer.from(memory, 0, memory.byteLength);
    const now = performance.now();
    this.calmUntil = now + CALM.patienceMs;
    this.shortUntil = now + SHORT.patienceMs;
  }

  get isFull(): boolean {
    return this.length === this.buffer.length;
  }

  get bytes(): Buffer {
    return this.buffer.subarray(0, this.length);
  }

  fill(chunk: Uint8Array): number {
    const piece = chunk.subarray(0, this.buffer.length - this.length);
    this.buffer.set(piece, this.length);
    this.length += piece.length;
    const now = performance.now();
    this.calmUntil = Math.min(now + CALM.patienceMs, this.calmUntil + piece.length / CALM.rate);
    this.shortUntil = Math.min(now + SHORT.patienceMs, this.shortUntil + piece.length / SHORT.rate);
    return piece.length;
  }

  endFilling(): void {
    this.owner.endFilling();
  }

  release(mayBeRead = false): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.owner.endFilling();
    this.owner.release(mayBeRead);
  }

  /** @param patienceMs while memory is short. */
  look(now: number, patienceMs: number | undefined): void {
    // Being slow before memory was short counts for nothing.
    this.shortUntil = Math.min(this.shortUntil, now + (patienceMs ?? SHORT.patienceMs));
    if (patienceMs === undefined) this.shortUntil = now + SHORT.patienceMs;
    if (now < this.shortUntil && now < this.calmUntil) return;
    this.onTooSlow(new ServiceError('request-timeout', 'The client sends too slowly to keep the memory of a part.'));
  }
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
