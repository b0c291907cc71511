import { FREE_BYTES, type MemoryBudget, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';
import type { BodyMemory } from './body-memory.js';

/** The lowest rate at which a client may send while others wait for memory, in bytes per millisecond. */
const LEAST_RATE = 16;
/** How far a client may fall behind that rate, in milliseconds spent waiting for it. */
const PATIENCE_MS = 5_000;

/**
 * Checks the rate at which a client sends a body. The rate matters only while others wait for memory and the body holds
 * some of it. Only time spent waiting for the client counts.
 */
export class ClientRate {
  private receivedBytes = 0;
  private leftMs = PATIENCE_MS;

  /** @param memory of a body that is held as a whole; undefined for a body that is only streamed. */
  constructor(
    private readonly memory: BodyMemory | undefined,
    private readonly budget: MemoryBudget = processMemory,
  ) {}

  received(bytes: number): void {
    this.receivedBytes += bytes;
    this.leftMs = Math.min(PATIENCE_MS, this.leftMs + bytes / LEAST_RATE);
  }

  /** @throws ServiceError `request-timeout` when the client has been too slow for too long. */
  waited(milliseconds: number): void {
    if (!this.isWatched || !this.budget.isShort) {
      this.leftMs = PATIENCE_MS;
      return;
    }
    this.leftMs -= milliseconds;
    if (this.leftMs < 0) throw new ServiceError('request-timeout', 'The client is slow, and others wait for memory.');
  }

  /** Whether the body may hold memory that others wait for. */
  get isWatched(): boolean {
    const mayHavePart = this.receivedBytes > FREE_BYTES && this.budget.usedFor('part') > 0;
    return mayHavePart || this.memory?.isHeld === true;
  }
}
