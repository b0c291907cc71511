import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type HeldMemory, type MemoryBudget, processMemory } from '../../../../common/memory-budget.js';

const MIB = 1024 * 1024;
/** By how much a part grows while memory is to be had at once, in bytes. */
const STEP_BYTES = 256 * 1024;
/** How often memory is looked after, while any is in use or kept, in milliseconds. */
const LOOK_EVERY_MS = 250;
/** How long memory that nobody uses is kept, in milliseconds. */
const KEPT_FOR_MS = 10_000;
/** After so much was in use, the garbage of the uploads is collected too when the memory goes back; in bytes. */
const MUCH_BYTES = 64 * MIB;

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
    const memories = [...this.inUse, ...this.idle].map(({ memory }) => memory.byteLength);
    return memories.reduce((sum, bytes) => sum + bytes, 0);
  }

  /** An empty part. */
  newPart(): PartBuffer {
    this.timer ??= setInterval(() => { this.look(); }, LOOK_EVERY_MS).unref();
    const memory = this.idle.pop()?.memory ?? new ArrayBuffer(0, { maxByteLength: this.partBytes });
    const part = new Part(memory, this.budget.hold('part'), (mayBeRead) => {
      this.inUse.delete(part);
      if (!mayBeRead) this.idle.push({ memory, since: performance.now() });
    });
    this.inUse.add(part);
    return part;
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
  private length = 0;
  private isReleased = false;

  constructor(
    readonly memory: ArrayBuffer,
    private readonly held: HeldMemory,
    private readonly onRelease: (mayBeRead: boolean) => void,
  ) {}

  get isFull(): boolean {
    return this.length === this.memory.maxByteLength;
  }

  get bytes(): Buffer {
    return Buffer.from(this.memory, 0, this.length);
  }

  makeRoom(): Promise<void> | undefined {
    if (this.length < this.held.bytes) return undefined;
    const most = this.memory.maxByteLength - this.held.bytes;
    return this.held.tryGrow(Math.min(STEP_BYTES, most)) ? undefined : this.held.grow(most);
  }

  fill(chunk: Uint8Array): number {
    const { memory, held } = this;
    if (memory.byteLength < held.bytes) memory.resize(held.bytes);
    const piece = chunk.subarray(0, held.bytes - this.length);
    new Uint8Array(memory).set(piece, this.length);
    this.length += piece.length;
    return piece.length;
  }

  release(mayBeRead = false): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.onRelease(mayBeRead);
    this.held.release();
  }
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
