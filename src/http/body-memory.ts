import type { IncomingMessage } from 'node:http';
import { FREE_BYTES, type HeldMemory, type MemoryBudget, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';

/** The most bytes that a UTF-16 unit of a text takes in JSON, for example as the escape `\u0001`. */
const MAX_BYTES_A_CHARACTER = 6;
const STEP_BYTES = 64 * 1024;

function assertConnected({ socket }: IncomingMessage): void {
  if (socket.destroyed) throw new ServiceError('client-aborted', 'The client aborted its request.');
}

/**
 * The memory of a request body that may be kept in memory as a whole: JSON, or the `additional_data` of a form. The
 * first 64 KiB are free; further memory is taken from the budget that all bodies of the process share.
 */
export class BodyMemory {
  private held: HeldMemory | undefined;
  private line: HeldMemory | undefined;
  private isBehindFile = false;

  constructor(
    private readonly request: IncomingMessage,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  /** Whether the body holds memory of the budget. Memory for an index line doesn't count. */
  get isHeld(): boolean {
    return this.held !== undefined && this.held.bytes > 0;
  }

  /**
   * Must be called once the file of a form has been read. Text after the file then takes memory for the use `rest` (see
   * `MemoryUse`), because the request may still hold memory for a part of the file. Exception: if text before the file
   * holds memory (`isHeld`), text after it takes memory for `text`, too.
   */
  passFile(): void {
    if (this.isHeld) return;
    this.held = undefined;
    this.isBehindFile = true;
  }

  /**
   * Takes memory until the body has enough for `bytes` bytes in total. Returns undefined if no wait is needed;
   * otherwise a promise that resolves when the memory is granted.
   *
   * @throws ServiceError `client-aborted` when the connection closes before the memory is granted.
   */
  growTo(bytes: number): Promise<void> | undefined {
    if (bytes <= FREE_BYTES) return undefined;
    this.held ??= this.budget.hold(this.isBehindFile ? 'rest' : 'text');
    const missing = bytes - FREE_BYTES - this.held.bytes;
    return missing <= 0 ? undefined : this.take(this.held, Math.max(missing, STEP_BYTES));
  }

  /**
   * Takes memory for the index line that will contain `text`, unless `text` has at most 65,536 UTF-16 units. Returns
   * and throws like `growTo`.
   */
  growForLine(text: string): Promise<void> | undefined {
    if (text.length <= FREE_BYTES) return undefined;
    this.line ??= this.budget.hold('line');
    return this.take(this.line, text.length * MAX_BYTES_A_CHARACTER);
  }

  shrinkTo(bytes: number): void {
    this.held?.shrinkTo(Math.max(0, bytes - FREE_BYTES));
  }

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
