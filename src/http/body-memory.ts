import type { IncomingMessage } from 'node:http';
import { FREE_BYTES, type HeldMemory, type MemoryBudget, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';

/** The most JSON bytes that one character can become (`\u0001`). */
const MOST_BYTES_A_CHARACTER = 6;
/** The smallest amount requested from the budget, in bytes. */
const STEP_BYTES = 64 * 1024;

function assertConnected({ socket }: IncomingMessage): void {
  if (socket.destroyed) throw new ServiceError('client-aborted', 'The client aborted its request.');
}

/**
 * The memory of a body that is held as a whole: JSON, or a form's `additional_data`. The first 64 KiB are free.
 * Anything more is taken from the process's memory budget.
 */
export class BodyMemory {
  private held: HeldMemory | undefined;
  private line: HeldMemory | undefined;
  private isBehindFile = false;

  constructor(
    private readonly request: IncomingMessage,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  /** Whether it holds memory that others may be waiting for. */
  get isHeld(): boolean {
    return this.held !== undefined && this.held.bytes > 0;
  }

  /**
   * Must be called after a form's file has been read. From then on, memory is taken as `rest`, because the request may
   * also hold memory for part of the file.
   */
  passFile(): void {
    if (this.isHeld) return;
    this.held = undefined;
    this.isBehindFile = true;
  }

  /**
   * Undefined when the body may grow to `bytes` at once. Otherwise resolves when it may.
   *
   * @throws ServiceError `client-aborted` when the connection closes in the meantime.
   */
  growTo(bytes: number): Promise<void> | undefined {
    if (bytes <= FREE_BYTES) return undefined;
    this.held ??= this.budget.hold(this.isBehindFile ? 'rest' : 'text');
    const missing = bytes - FREE_BYTES - this.held.bytes;
    return missing <= 0 ? undefined : this.take(this.held, Math.max(missing, STEP_BYTES));
  }

  /** Takes the memory for the index line of a text. Returns and throws like `growTo`. */
  growForLine(text: string): Promise<void> | undefined {
    if (text.length <= FREE_BYTES) return undefined;
    this.line ??= this.budget.hold('line');
    return this.take(this.line, text.length * MOST_BYTES_A_CHARACTER);
  }

  /** Keeps memory for `bytes` bytes at most, and releases the rest. */
  shrinkTo(bytes: number): void {
    this.held?.shrinkTo(Math.max(0, bytes - FREE_BYTES));
  }

  /** Releases everything. Idempotent. */
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
