import { type HeldMemory, type MemoryBudget, processMemory } from '../../../../common/memory-budget.js';
import { KIB, MIB } from '../../../../common/sizes.js';

const STEP_BYTES = 256 * KIB;
const LOOK_EVERY_MS = 250;
/** The most memory that is kept for reuse. This memory doesn't count towards the memory budget. */
const MAX_KEPT_BYTES = 16 * MIB;
const KEPT_FOR_MS = 10_000;

export interface PartBuffer {
  readonly isFull: boolean;
  /** The content of the part. Must not be used after `release`. */
  readonly bytes: Buffer;
  /**
   * Makes room in the part for more bytes. Returns undefined if there is room now, and otherwise a promise that
   * resolves when there is room or the part was released.
   */
  makeRoom(): Promise<void> | undefined;
  fill(chunk: Uint8Array): number;
  /**
   * Gives the part's memory back. Idempotent.
   *
   * @param mayBeRead whether a failed request may still read the memory, which then isn't reused.
   */
  release(mayBeRead?: boolean): void;
}

/**
 * Memory for the parts of uploads to one bucket, taken from the process's memory budget. A part grows as bytes arrive.
 * While memory is short, a part waits until it gets all the memory up to its full length, so a part that has waited
 * once can be filled and sent. Memory that was idle for about ten seconds is returned to the operating system.
 */
export class PartMemory {
  private readonly idle: { readonly memory: ArrayBuffer; readonly since: number }[] = [];
  private readonly inUse = new Set<Part>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    readonly partBytes: number,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  get residentBytes(): number {
    return bytesOf(this.inUse) + bytesOf(this.idle);
  }

  /** Creates an empty part. Its user must release it. */
  newPart(): PartBuffer {
    this.timer ??= setInterval(() => { this.look(); }, LOOK_EVERY_MS).unref();
    const part = new Part(this, this.budget.hold('part'));
    this.inUse.add(part);
    return part;
  }

  takeMemory(): ArrayBuffer {
    return this.idle.pop()?.memory ?? new ArrayBuffer(0, { maxByteLength: this.partBytes });
  }

  takeBack(part: Part, memory: ArrayBuffer | undefined): void {
    this.inUse.delete(part);
    if (!memory) return;
    if (bytesOf(this.idle) + memory.byteLength > MAX_KEPT_BYTES) memory.resize(0);
    else this.idle.push({ memory, since: performance.now() });
  }

  private look(): void {
    const now = performance.now();
    // Unlike any other buffer, a resizable one that shrinks returns its memory to the operating system at once.
    for (const { memory, since } of this.idle) if (now - since >= KEPT_FOR_MS) memory.resize(0);
    if (this.inUse.size > 0 || this.idle.some(({ memory }) => memory.byteLength > 0)) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.idle.length = 0;
  }
}

class Part implements PartBuffer {
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
