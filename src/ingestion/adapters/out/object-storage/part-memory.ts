import { type HeldMemory, type MemoryBudget, processMemory } from '../../../../common/memory-budget.js';

const MIB = 1024 * 1024;
/** How much a part's memory grows at a time while memory is available, in bytes. */
const STEP_BYTES = 256 * 1024;
/**
 * How often idle memory is checked for its age, in milliseconds. Checks are made only while there are parts or idle
 * memory.
 */
const LOOK_EVERY_MS = 250;
/** At most this much idle memory is kept for later uploads, in bytes. It doesn't count towards the memory budget. */
const MAX_KEPT_BYTES = 16 * MIB;
/** How long idle memory is kept, in milliseconds. */
const KEPT_FOR_MS = 10_000;

/** Memory for one part of an upload. */
export interface PartBuffer {
  readonly isFull: boolean;
  /** The bytes that `fill` has copied into the part. Must not be used after `release`. */
  readonly bytes: Buffer;
  /**
   * Makes room for more bytes of the part. Returns undefined if there is room now. Otherwise returns a promise that
   * resolves when there is room, or when the part was released.
   */
  makeRoom(): Promise<void> | undefined;
  /**
   * Copies the beginning of a chunk into the part: as many bytes as the part has room for.
   *
   * @returns the number of bytes copied.
   */
  fill(chunk: Uint8Array): number;
  /**
   * Gives the part's memory back to the `PartMemory` that it came from. Idempotent.
   *
   * @param mayBeRead whether a failed request may still read the memory. If so, the memory isn't reused, but left to
   *   the garbage collector.
   */
  release(mayBeRead?: boolean): void;
}

/**
 * Memory for the parts of uploads to one bucket, taken from the process's memory budget. A part grows as bytes arrive.
 * While memory is short, a part waits until it gets all the memory up to its full length. So a part that has waited
 * once can be filled and sent.
 *
 * Memory that was idle for ten seconds is returned to the operating system.
 */
export class PartMemory {
  /**
   * The idle memory, each piece with the time since when it has been idle, in milliseconds (`performance.now()`). The
   * piece that was used last is reused first.
   */
  private readonly idle: { readonly memory: ArrayBuffer; readonly since: number }[] = [];
  private readonly inUse = new Set<Part>();
  private timer: NodeJS.Timeout | undefined;

  /** @param partBytes the length of a full part, in bytes. */
  constructor(
    readonly partBytes: number,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  /** The bytes of memory that parts use, or that are kept idle for later parts. */
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

  /** Takes idle or new memory for a part that receives its first bytes. */
  takeMemory(): ArrayBuffer {
    return this.idle.pop()?.memory ?? new ArrayBuffer(0, { maxByteLength: this.partBytes });
  }

  /**
   * Takes back the memory of a released part.
   *
   * @param memory the part's memory; undefined if the part has none, or if the memory must not be reused.
   */
  takeBack(part: Part, memory: ArrayBuffer | undefined): void {
    this.inUse.delete(part);
    if (!memory) return;
    if (bytesOf(this.idle) + memory.byteLength > MAX_KEPT_BYTES) memory.resize(0);
    else this.idle.push({ memory, since: performance.now() });
  }

  private look(): void {
    const now = performance.now();
    // A resizable buffer that shrinks returns its memory to the operating system at once. Any other buffer returns it
    // only when it is garbage-collected, which may never happen.
    for (const { memory, since } of this.idle) if (now - since >= KEPT_FOR_MS) memory.resize(0);
    if (this.inUse.size > 0 || this.idle.some(({ memory }) => memory.byteLength > 0)) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.idle.length = 0;
  }
}

class Part implements PartBuffer {
  /** The memory of the part; undefined while the part is empty. */
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
