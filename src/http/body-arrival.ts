import type { IncomingMessage } from 'node:http';
import { nextTick } from 'node:process';
import { joined } from '../common/joined.js';
import { FREE_BYTES } from '../common/memory-budget.js';
import { bodyPace } from './body-pace.js';
import { declaredLength } from './request-head.js';

/**
 * Each byte of chunk framing counts as 64 bytes of a body. A chunk has at least five bytes of framing, and Node's call
 * of JavaScript for each chunk takes about as long as hashing 300 bytes.
 */
const FRAMING_WEIGHT = 64;

/**
 * Reads the body of a request as it arrives. A long body (declared with over 64 KiB, or costing more than that) may
 * have to wait for `BodyPace` after each read. Its socket is paused during the wait.
 */
export class BodyArrival {
  private readonly isLong: boolean;
  private readonly socketBytesBefore: number;
  private bytesRead = 0;
  private cost = 0;

  constructor(private readonly request: IncomingMessage) {
    const length = declaredLength(request);
    this.isLong = length !== undefined && length > FREE_BYTES;
    this.socketBytesBefore = request.socket.bytesRead;
  }

  /**
   * Reads all bytes that have arrived and weren't read yet; null if there are none. May wait for `BodyPace` if the body
   * is long.
   */
  async read(): Promise<Buffer | null> {
    const chunk = arrivedBytes(this.request);
    if (chunk === null) return null;
    this.bytesRead += chunk.length;
    const turn = this.nextTurn();
    if (turn) await this.withoutReading(turn);
    return chunk;
  }

  private nextTurn(): Promise<void> | undefined {
    const { bytesRead, cost } = this;
    const framing = Math.max(0, this.request.socket.bytesRead - this.socketBytesBefore - bytesRead);
    this.cost = Math.max(cost, bytesRead + framing * FRAMING_WEIGHT);
    return this.isLong || this.cost > FREE_BYTES ? bodyPace.next(this, this.cost - cost) : undefined;
  }

  /** Waits for `turn` with the socket paused. Otherwise Node could parse thousands of short chunks during the wait. */
  private async withoutReading(turn: Promise<void>): Promise<void> {
    const { socket } = this.request;
    let isOver = false;
    // The socket is paused on the next tick, because `request.read` has made Node resume it on that tick.
    nextTick(() => {
      if (!isOver) socket.pause();
    });
    await turn;
    isOver = true;
    socket.resume();
  }
}

/** Reads all bytes that have arrived. From Node 26 on, one call of `request.read()` returns only the first chunk. */
function arrivedBytes(request: IncomingMessage): Buffer | null {
  const first = request.read() as Buffer | null;
  if (first === null || request.readableLength === 0) return first;
  const chunks = [first];
  while (request.readableLength > 0) {
    const next = request.read() as Buffer | null;
    if (next === null) break;
    chunks.push(next);
  }
  return joined(chunks);
}
