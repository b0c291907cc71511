import { FREE_BYTES, type MemoryBudget, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';
import type { BodyMemory } from './body-memory.js';

/** The slowest rate at which a client may send a body, in bytes per millisecond. */
const MIN_RATE = 16;
const PATIENCE_MS = 5_000;
/** How long a client may let others wait for the memory that its text holds. */
const MAX_HOLD_MS = 120_000;

/**
 * Checks the rate at which a client sends a request body, and for how long it keeps memory from others. Both matter only
 * while a request has been waiting for memory for at least a second and this body may hold memory of the same budget.
 * Only time that the service spends waiting for the client counts.
 */
export class ClientRate {
  private receivedBytes = 0;
  private leftMs = PATIENCE_MS;
  private leftHoldMs = MAX_HOLD_MS;

  constructor(
    private readonly memory: BodyMemory | undefined,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  received(bytes: number): void {
    this.receivedBytes += bytes;
    this.leftMs = Math.min(PATIENCE_MS, this.leftMs + bytes / MIN_RATE);
  }

  /**
   * Must be called after each wait for bytes of the client.
   *
   * @throws ServiceError `request-timeout` when the client has fallen more than five seconds behind the slowest rate
   * since the rate last began to matter, or when its text has kept memory from others for two minutes in all. The bytes
   * of a file don't extend these two minutes: the text before it is held until the file ends.
   */
  waited(milliseconds: number): void {
    if (!this.isWatched || !this.budget.isShort) {
      this.leftMs = PATIENCE_MS;
      return;
    }
    this.leftMs -= milliseconds;
    if (this.memory?.isHeld) this.leftHoldMs -= milliseconds;
    if (this.leftMs < 0 || this.leftHoldMs < 0) throw new ServiceError('request-timeout', 'The client is slow, and others wait for memory.');
  }

  get isWatched(): boolean {
    const mayHavePart = this.receivedBytes > FREE_BYTES && this.budget.usedFor('part') > 0;
    return mayHavePart || this.memory?.isHeld === true;
  }
}
