import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type HeldMemory, type MemoryBudget, processMemory } from '../../../../common/memory-budget.js';

const MIB = 1024 * 1024;
/** By how much a part grows while memory is to be had at once, in bytes. */
const STEP_BYTES = 256 * 1024;
/** How often memory is looked after, while any is in use or kept, in milliseconds. */
const LOOK_EVERY_MS = 250;
/** How much memory that nobody uses is kept, in bytes; it is no part of the budget. */
const MOST_KEPT_BYTES = 16 * MIB;
/** How long it is kept, in milliseconds. */
const KEPT_FOR_MS = 10_000;
/** After so much was in use, the garbage of the uploads is collected too when the memory goes back; in bytes. */
const MUCH_BYTES = 32 * MIB;

/** Memory for one part of an upload. */
export interface PartBuffer {
  readonly isFull: boolean;
  /** What was put in. Not to be used after `release`. */
  readonly bytes: Buffer;
  /**
   * Makes room for more bytes of the part. Undefined when there is some; otherwise resolves when there is, or when the
   * part was released.
   */
  makeRoom(): Promise<void> | undefined;
  /** Copies as much of a chunk as there is room for. @returns bytes */
  fill(chunk: Uint8Array): number;
  /**
   * Gives the memory back. Idempotent.
   *
   * @param mayBeRead whether a request that failed may still read it; it is left to the garbage collector then.
   */
  release(mayBeRead?: boolean): void;
}

/**
 * The memory that the uploads to one bucket have for parts, out of the process's budget. A part grows with what comes
 * in. While memory is short it waits for all that it lacks, so that whoever gets some can fill a part and send it.
 *
 * Memory that nobody used for ten seconds goes back to the operating system.
 */
export class PartMemory {
  /** With the time since when nobody used it; the one that was used last is used first. */
  private readonly idle: { readonly memory: ArrayBuffer; readonly since: number }[] = [];
  private readonly inUse = new Set<Part>();
  private mostBytes = 0;
  private timer: NodeJS.Timeout | undefined;

  /** @param partBytes the length of a part. */
  constructor(
    readonly partBytes: number,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  /** Bytes that are in use, or kept for the next upload. */
  get residentBytes(): number {
    return bytesOf(this.inUse) + bytesOf(this.idle);
  }

  /** An empty part. */
  newPart(): PartBuffer {
    this.timer ??= setInterval(() => { this.look(); }, LOOK_EVERY_MS).unref();
    const part = new Part(this, this.budget.hold('part'));
    this.inUse.add(part);
    return part;
  }

  /** For a part that has room for its first bytes. */
  takeMemory(): ArrayBuffer {
    return this.idle.pop()?.memory ?? new ArrayBuffer(0, { maxByteLength: this.partBytes });
  }

  /** @param memory undefined when it isn't to be used again. */
  takeBack(part: Part, memory: ArrayBuffer | undefined): void {
    this.inUse.delete(part);
    if (!memory) return;
    if (bytesOf(this.idle) + memory.byteLength > MOST_KEPT_BYTES) memory.resize(0);
    else this.idle.push({ memory, since: performance.now() });
  }

  private look(): void {
    const now = performance.now();
    this.mostBytes = Math.max(this.mostBytes, this.residentBytes);
    // A resizable buffer gives its pages back when it shrinks; another one when it is collected, perhaps never.
    for (const { memory, since } of this.idle) if (now - since >= KEPT_FOR_MS) memory.resize(0);
    if (this.inUse.size > 0 || this.idle.some(({ memory }) => memory.byteLength > 0)) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.idle.length = 0;
    const wasMuch = this.mostBytes >= MUCH_BYTES;
    this.mostBytes = 0;
    // Without it what hundreds of uploads left in the heap stays until much else was allocated, in a quiet process for ever.
    if (wasMuch) collectGarbage();
  }
}

class Part implements PartBuffer {
  /** Undefined as long as it is empty. */
  memory: ArrayBuffer | undefined;
  private length = 0;
  private isReleased = false;

  constructor(
    private readonly owner: PartMemory,
    private readonly held: HeldMemory,
  ) {}

  get isFull(): boolean {
    return this.length === this.owner.partBytes;
  }

  get bytes(): Buffer {
    return this.memory ? Buffer.from(this.memory, 0, this.length) : Buffer.alloc(0);
  }

  makeRoom(): Promise<void> | undefined {
    if (this.length < this.held.bytes) return undefined;
    const most = this.owner.partBytes - this.held.bytes;
    return this.held.tryGrow(Math.min(STEP_BYTES, most)) ? undefined : this.held.grow(most);
  }

  fill(chunk: Uint8Array): number {
    const { held } = this;
    const memory = (this.memory ??= this.owner.takeMemory());
    if (memory.byteLength < held.bytes) memory.resize(held.bytes);
    const piece = chunk.subarray(0, held.bytes - this.length);
    new Uint8Array(memory).set(piece, this.length);
    this.length += piece.length;
    return piece.length;
  }

  release(mayBeRead = false): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.owner.takeBack(this, mayBeRead ? undefined : this.memory);
    this.held.release();
  }
}

function bytesOf(holders: Iterable<{ readonly memory: ArrayBuffer | undefined }>): number {
  let bytes = 0;
  for (const { memory } of holders) bytes += memory?.byteLength ?? 0;
  return bytes;
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
