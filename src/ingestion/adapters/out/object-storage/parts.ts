import { FREE_BYTES } from '../../../../common/memory-budget.js';
import type { PartBuffer, PartMemory } from './part-memory.js';

/** Chunks of the head are joined when there are so many: each costs memory of its own. */
const MOST_HEAD_CHUNKS = 32;

export interface PartOptions {
  /** The memory for parts, and so the length of each but the last. */
  readonly memory: PartMemory;
  /** How many are sent at once. */
  readonly atOnce: number;
}

/** Where bytes go. A buffer is used again when its promise resolves. */
export interface PartTarget {
  /** @param index from 0 */
  sendPart(part: Buffer, index: number): Promise<void>;
  /** Called instead of `sendPart`, once, for bytes that are no more than one part. */
  sendWhole(bytes: Buffer): Promise<void>;
}

/**
 * Sends bytes of unknown length as they come: in parts, or whole when they are no more than one. Holds the parts that
 * are being sent, and one; reads nothing while there is no memory for it.
 *
 * Rejects with what the bytes throw, when no part is being sent any more; at once with what the target rejects with.
 *
 * @returns how many parts were sent; 0 when the bytes were sent whole.
 */
export async function sendParts(bytes: AsyncIterable<Uint8Array>, options: PartOptions, target: PartTarget): Promise<number> {
  const sender = new PartSender(options, target);
  // One race for all: each would keep what it was given as long as the failure may still come.
  return Promise.race([sender.sendAll(bytes), sender.failing]);
}

class PartSender {
  /** Rejects when the target does. */
  readonly failing: Promise<never>;
  private readonly reject: (error: Error) => void;
  private failure: { readonly error: unknown } | undefined;
  private haveBytesFailed = false;
  private readonly underWay = new Set<Promise<void>>();
  private part: PartBuffer | undefined;
  private count = 0;

  constructor(
    private readonly options: PartOptions,
    private readonly target: PartTarget,
  ) {
    let reject: (error: Error) => void = () => undefined;
    this.failing = new Promise((_, rejectFailing) => (reject = rejectFailing));
    this.reject = reject;
  }

  async sendAll(bytes: AsyncIterable<Uint8Array>): Promise<number> {
    /** What may turn out to be all. */
    let head: Head | undefined = new Head();
    try {
      for await (const chunk of bytes) {
        this.assertGoesOn();
        if (head?.add(chunk)) continue;
        for (const early of head?.take() ?? []) await this.add(early);
        head = undefined;
        await this.add(chunk);
      }
      this.assertGoesOn();
      if (head) await this.target.sendWhole(Buffer.concat(head.take()));
      else if (this.part) await (this.count === 0 ? this.sendWhole(this.part) : this.begin(this.part));
      await Promise.all(this.underWay);
    } catch (error) {
      this.haveBytesFailed = !this.failure;
      this.part?.release();
      await Promise.all(this.underWay);
      throw error;
    }
    this.assertGoesOn();
    return this.count;
  }

  private fail(error: unknown): void {
    this.failure ??= { error };
    // Its client may be silent for long.
    this.part?.release();
    this.part = undefined;
    // Whoever waits gets to know of the first: the bytes', or this.
    if (!this.haveBytesFailed) this.reject(error instanceof Error ? error : new Error(String(error)));
  }

  private async add(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      // The first one may be all.
      if (this.part?.isFull) await this.begin(this.part);
      const part = (this.part ??= this.options.memory.newPart());
      const waiting = part.makeRoom();
      if (waiting) {
        await waiting;
        this.assertGoesOn();
      }
      at += part.fill(at === 0 ? chunk : chunk.subarray(at));
      if (part.isFull && this.count > 0) await this.begin(part);
    }
  }

  private async begin(part: PartBuffer): Promise<void> {
    while (this.underWay.size >= this.options.atOnce) await Promise.race(this.underWay);
    this.assertGoesOn();
    this.part = undefined;
    const sending = this.target
      .sendPart(part.bytes, this.count)
      .then(
        () => { part.release(); },
        (error: unknown) => {
          part.release(true);
          this.fail(error);
        },
      )
      .finally(() => this.underWay.delete(sending));
    this.underWay.add(sending);
    this.count += 1;
  }

  private async sendWhole(part: PartBuffer): Promise<void> {
    this.part = undefined;
    let isSent = false;
    try {
      await this.target.sendWhole(part.bytes);
      isSent = true;
    } finally {
      part.release(!isSent);
    }
  }

  private assertGoesOn(): void {
    if (this.failure) throw this.failure.error;
  }
}

/** The first bytes of an upload. */
class Head {
  private chunks: Uint8Array[] = [];
  private length = 0;

  /** @returns false, and takes nothing, when there would be too many. */
  add(chunk: Uint8Array): boolean {
    if (this.length + chunk.length > FREE_BYTES) return false;
    this.chunks.push(chunk);
    this.length += chunk.length;
    if (this.chunks.length === MOST_HEAD_CHUNKS) this.chunks = [Buffer.concat(this.chunks)];
    return true;
  }

  take(): Uint8Array[] {
    return this.chunks;
  }
}
