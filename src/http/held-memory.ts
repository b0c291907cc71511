import type { IncomingMessage } from 'node:http';
import { LEAST_RATE, type MemoryBudget, type MemoryLine, type MemoryShare, processMemory } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';

/** What large bodies may hold of the process's memory, in bytes: what is decoded or checked at a time costs more than its bytes. */
const MAX_BYTES = 48 * 1024 * 1024;
/** A body up to this length holds its memory without asking. */
export const SMALL_BODY_BYTES = 16 * 1024;
/** How long we wait for a client in all before its rate counts, in milliseconds. */
const PATIENCE_MS = 10_000;

interface Waiting {
  readonly bytes: number;
  readonly since: number;
  readonly resolve: () => void;
}

/**
 * The memory for bodies that must be held as a whole: JSON, and a form's `additional_data`. A request asks once, before
 * it holds more than 16 KiB, and waits in line while there is too little.
 */
export class BodyMemory implements MemoryLine {
  private readonly line: Waiting[] = [];
  private readonly share: MemoryShare;

  constructor(
    budget: MemoryBudget,
    readonly maxBytes: number,
  ) {
    this.share = budget.share(this, maxBytes);
  }

  get waitingSince(): number | undefined {
    return this.line[0]?.since;
  }

  /** Whether others wait for what somebody holds. */
  get isShort(): boolean {
    return this.share.isShort;
  }

  /** @throws ServiceError `client-aborted` when the connection closes in the meantime. */
  async take(bytes: number, { socket }: IncomingMessage): Promise<void> {
    if (socket.destroyed) throw hungUp();
    if (this.line.length === 0 && this.share.take(bytes)) return;
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.line.splice(this.line.indexOf(waiting), 1);
        reject(hungUp());
        // Those behind it may need less, and other kinds of use need no longer leave room.
        this.share.give(0);
      };
      const waiting = {
        bytes,
        since: performance.now(),
        resolve: () => {
          socket.off('close', leave);
          resolve();
        },
      };
      socket.once('close', leave);
      this.line.push(waiting);
    });
  }

  give(bytes: number): void {
    this.share.give(bytes);
  }

  serve(): void {
    for (let next = this.line[0]; next && this.share.take(next.bytes); next = this.line[0]) {
      this.line.shift();
      next.resolve();
    }
  }
}

const hungUp = (): ServiceError => new ServiceError('client-aborted', 'The client broke its request off.');

const bodies = new BodyMemory(processMemory, MAX_BYTES);

/** What one request holds of a `BodyMemory`. */
export class HeldMemory {
  private bytes = 0;
  private receivedBytes = 0;
  private waitedMs = 0;

  constructor(
    private readonly request: IncomingMessage,
    private readonly memory = bodies,
  ) {}

  /** Whether it holds any, and so may keep others waiting. */
  get isHeld(): boolean {
    return this.bytes > 0;
  }

  /**
   * Resolves when the memory is there. Called once at most, so that nobody waits who makes others wait.
   *
   * @throws ServiceError `client-aborted`
   */
  async take(bytes: number): Promise<void> {
    if (this.isHeld) throw new Error('A request asks for memory once.');
    const most = Math.min(bytes, this.memory.maxBytes);
    await this.memory.take(most, this.request);
    this.bytes = most;
  }

  /** Gives back what is over. */
  shrinkTo(bytes: number): void {
    if (bytes >= this.bytes) return;
    this.memory.give(this.bytes - bytes);
    this.bytes = bytes;
  }

  /**
   * Takes note of what the client sent while we waited for it.
   *
   * @throws ServiceError `request-timeout` when it is slow and others wait for what it holds.
   */
  noteProgress(receivedBytes: number, waitedMs: number): void {
    if (!this.isHeld) return;
    this.receivedBytes += receivedBytes;
    this.waitedMs += waitedMs;
    const isSlow = this.waitedMs > PATIENCE_MS && this.receivedBytes < this.waitedMs * LEAST_RATE;
    if (isSlow && this.memory.isShort) throw new ServiceError('request-timeout', 'The client is slow, and others wait for memory.');
  }
}
