import type { IncomingMessage } from 'node:http';
import { FREE_BYTES, type HeldMemory, type MemoryBudget, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';

/** The most bytes that one UTF-16 unit of a text can take in JSON, as `\u0001` does. */
const MOST_BYTES_A_CHARACTER = 6;
/** The smallest amount of memory that a body takes from the budget at once, in bytes. */
const STEP_BYTES = 64 * 1024;

function assertConnected({ socket }: IncomingMessage): void {
  if (socket.destroyed) throw new ServiceError('client-aborted', 'The client aborted its request.');
}

/**
 * The memory of a body that is held as a whole: JSON, or a form's `additional_data`. The first 64 KiB are free. Memory
 * for further bytes is taken from the process's memory budget.
 */
export class BodyMemory {
  private held: HeldMemory | undefined;
  private line: HeldMemory | undefined;
  private isBehindFile = false;

  constructor(
    private readonly request: IncomingMessage,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  /** Whether the body holds memory of the budget, for which other requests may be waiting. */
  get isHeld(): boolean {
    return this.held !== undefined && this.held.bytes > 0;
  }

  /**
   * Must be called after a form's file has been read. Memory is then taken for the use `rest`, because the request may
   * also hold memory for part of the file. A body that already holds memory keeps its use.
   */
  passFile(): void {
    if (this.isHeld) return;
    this.held = undefined;
    this.isBehindFile = true;
  }

  /**
   * Takes the memory for a body of `bytes` bytes in total. Returns undefined if the memory was available at once.
   * Otherwise resolves when the memory is granted.
   *
   * @throws ServiceError `client-aborted` when the connection closes before the memory is granted.
   */
  growTo(bytes: number): Promise<void> | undefined {
    if (bytes <= FREE_BYTES) return undefined;
    this.held ??= this.budget.hold(this.isBehindFile ? 'rest' : 'text');
    const missing = bytes - FREE_BYTES - this.held.bytes;
    return missing <= 0 ? undefined : this.take(this.held, Math.max(missing, STEP_BYTES));
  }

  /** Takes the memory for the index line of a text longer than 64 Ki UTF-16 units. Returns and throws like `growTo`. */
  growForLine(text: string): Promise<void> | undefined {
    if (text.length <= FREE_BYTES) return undefined;
    this.line ??= this.budget.hold('line');
    return this.take(this.line, text.length * MOST_BYTES_A_CHARACTER);
  }

  /** Keeps memory for at most `bytes` bytes of the body, and releases the rest. Keeps the index line's memory. */
  shrinkTo(bytes: number): void {
    this.held?.shrinkTo(Math.max(0, bytes - FREE_BYTES));
  }

  /** Releases all memory of the body and its index line. Idempotent. */
  release(): void {
    this.held?.release();
    this.line?.release();
  }

  private take(held: HeldMemory, bytes: number): Promise<void> | undefined {
    return held.tryGrow(bytes) ? undefined : this.waitFor(held, bytes);
  }

  private async waitFor(held: HeldMemory, bytes: number): Promise<void> {
    const { socket } = this.request;
    const leave = (): void => {
      held.release();
    };
    assertConnected(this.request);
    socket.once('close', leave);
    await held.grow(bytes).finally(() => socket.off('close', leave));
    assertConnected(this.request);
  }
}
