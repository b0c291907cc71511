import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../common/service-error.js';

/** Bytes that the large bodies of all requests together may hold. */
const MAX_BYTES = 64 * 1024 * 1024;
/** A body up to this length holds its memory without asking. */
export const SMALL_BODY_BYTES = 16 * 1024;
/** How long we wait for a client in all before its pace counts, in milliseconds. */
const PATIENCE_MS = 10_000;
const LEAST_BYTES_PER_MS = 32;

interface Waiting {
  readonly bytes: number;
  readonly resolve: () => void;
}

/**
 * The memory for bodies that must be held as a whole: JSON, and a form's `additional_data`. A request asks once, before
 * it holds more than 16 KiB, and waits in line while there is too little.
 */
export class BodyMemory {
  private heldBytes = 0;
  private readonly line: Waiting[] = [];

  constructor(readonly maxBytes: number) {}

  /** Whether somebody waits. */
  get isScarce(): boolean {
    return this.line.length > 0;
  }

  /** @throws ServiceError `client-aborted` when the connection closes in the meantime. */
  async take(bytes: number, { socket }: IncomingMessage): Promise<void> {
    if (socket.destroyed) throw hungUp();
    if (this.line.length === 0 && this.heldBytes + bytes <= this.maxBytes) {
      this.heldBytes += bytes;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.line.splice(this.line.indexOf(waiting), 1);
        reject(hungUp());
        this.serve();
      };
      const waiting = {
        bytes,
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
    this.heldBytes -= bytes;
    this.serve();
  }

  private serve(): void {
    for (let next = this.line[0]; next && this.heldBytes + next.bytes <= this.maxBytes; next = this.line[0]) {
      this.line.shift();
      this.heldBytes += next.bytes;
      next.resolve();
    }
  }
}

const hungUp = (): ServiceError => new ServiceError('client-aborted', 'The client broke its request off.');

/** One budget for the process: its memory is one, too. */
const processMemory = new BodyMemory(MAX_BYTES);

/** What one request holds of a `BodyMemory`. */
export class HeldMemory {
  private bytes = 0;
  private receivedBytes = 0;
  private waitedMs = 0;

  constructor(
    private readonly request: IncomingMessage,
    private readonly memory = processMemory,
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
    const isSlow = this.waitedMs > PATIENCE_MS && this.receivedBytes < this.waitedMs * LEAST_BYTES_PER_MS;
    if (isSlow && this.memory.isScarce) throw new ServiceError('request-timeout', 'The client is slow, and others wait for memory.');
  }
}
