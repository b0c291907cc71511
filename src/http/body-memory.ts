import type { IncomingMessage } from 'node:http';
import { FREE_BYTES, type HeldMemory, type MemoryBudget, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';

/** A character of a text may become so many bytes of JSON, as `\u0001`. */
const MOST_BYTES_A_CHARACTER = 6;
/** How much is asked for at a time, in bytes. */
const STEP_BYTES = 64 * 1024;

function assertConnected({ socket }: IncomingMessage): void {
  if (socket.destroyed) throw new ServiceError('client-aborted', 'The client broke its request off.');
}

/**
 * The memory of a body that is held as a whole: JSON, or a form's `additional_data`. 64 KiB of it are free; for more it
 * asks the process's budget.
 */
export class BodyMemory {
  private held: HeldMemory | undefined;
  private line: HeldMemory | undefined;
  private isBehindFile = false;

  constructor(
    private readonly request: IncomingMessage,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  /** Whether it holds memory that others may wait for. */
  get isHeld(): boolean {
    return this.held !== undefined && this.held.bytes > 0;
  }

  /** To be called behind a form's file, of which memory may be held too. */
  passFile(): void {
    if (this.isHeld) return;
    this.held = undefined;
    this.isBehindFile = true;
  }

  /**
   * Undefined when a body may grow to so many bytes at once; otherwise resolves when it may.
   *
   * @throws ServiceError `client-aborted` when the connection closes in the meantime.
   */
  growTo(bytes: number): Promise<void> | undefined {
    if (bytes <= FREE_BYTES) return undefined;
    this.held ??= this.budget.hold(this.isBehindFile ? 'rest' : 'text');
    const missing = bytes - FREE_BYTES - this.held.bytes;
    return missing <= 0 ? undefined : this.take(this.held, Math.max(missing, STEP_BYTES));
  }

  /** Takes the memory for a text's index line. Otherwise as `growTo`. */
  growForLine(text: string): Promise<void> | undefined {
    if (text.length <= FREE_BYTES) return undefined;
    this.line ??= this.budget.hold('line');
    return this.take(this.line, text.length * MOST_BYTES_A_CHARACTER);
  }

  /** Gives back what is over. */
  shrinkTo(bytes: number): void {
    this.held?.shrinkTo(Math.max(0, bytes - FREE_BYTES));
  }

  /** Gives back everything. Idempotent. */
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
