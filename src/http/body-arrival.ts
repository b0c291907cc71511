import type { IncomingMessage } from 'node:http';
import { nextTick } from 'node:process';
import { FREE_BYTES } from '../common/memory-budget.js';
import { bodyPace } from './body-pace.js';
import { declaredLength } from './request-head.js';

/**
 * How many bytes of a body cost as much as one byte of the framing of its chunks. Node calls JavaScript for each chunk,
 * which has at least five bytes of framing, and this takes about as long as hashing 300 bytes.
 */
const FRAMING_WEIGHT = 64;

/**
 * Reads the body of a request as it arrives, and lets long bodies wait for their turn (`BodyPace`). Nothing is read from
 * the socket meanwhile, so a body that waits causes no further work.
 */
export class BodyArrival {
  private readonly isLong: boolean;
  private readonly socketBytesBefore: number;
  private bytesRead = 0;
  /** The cost of the body so far, in bytes. */
  private cost = 0;

  constructor(private readonly request: IncomingMessage) {
    const length = declaredLength(request);
    this.isLong = length !== undefined && length > FREE_BYTES;
    this.socketBytesBefore = request.socket.bytesRead;
  }

  /** Everything that has arrived and wasn't read yet, once it may be used; null if there is nothing. */
  async read(): Promise<Buffer | null> {
    const chunk = this.request.read() as Buffer | null;
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

  /**
   * Waits for the turn of this body while Node reads nothing from the socket. Otherwise Node would parse thousands of
   * short chunks before this body may have its turn.
   */
  private async withoutReading(turn: Promise<void>): Promise<void> {
    const { socket } = this.request;
    let isOver = false;
    // Reading the body has made Node resume the socket, which happens on the next tick.
    nextTick(() => {
      if (!isOver) socket.pause();
    });
    await turn;
    isOver = true;
    socket.resume();
  }
}
