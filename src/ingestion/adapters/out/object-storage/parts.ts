import { FREE_BYTES } from '../../../../common/memory-budget.js';
import type { PartBuffer, PartMemory } from './part-memory.js';

/** The first bytes of an upload are joined after this many chunks, because each chunk takes memory beside its bytes. */
const MAX_HEAD_CHUNKS = 32;

export interface PartOptions {
  readonly memory: PartMemory;
  readonly atOnce: number;
}

/**
 * Receives the bytes of an upload, in parts or whole. A buffer may be reused once the promise of the call that got it
 * has resolved.
 */
export interface PartTarget {
  sendPart(part: Buffer, index: number): Promise<void>;
  /** Called once, instead of `sendPart`, if all bytes of the upload fit into one part. */
  sendWhole(bytes: Buffer): Promise<void>;
}

/**
 * Sends bytes of unknown length to a target as they arrive, in parts, or whole if they fit into one part. Holds in
 * memory the parts being sent and one more.
 *
 * If reading `bytes` fails first, rejects with that error once no part is being sent any more. If the target fails
 * first, rejects at once with the target's error.
 *
 * @returns how many parts were sent; 0 if the bytes were sent whole.
 */
export async function sendParts(bytes: AsyncIterable<Uint8Array>, options: PartOptions, target: PartTarget): Promise<number> {
  const sender = new PartSender(options, target);
  // One race for the whole upload: one for each part would keep that part's result in memory until `failing` settles.
  return Promise.race([sender.sendAll(bytes), sender.failing]);
}

class PartSender {
  readonly failing: Promise<never>;
  private readonly reject: (error: Error) => void;
  private failure: { readonly error: unknown } | undefined;
  private haveBytesFailed = false;
  private readonly inFlight = new Set<Promise<void>>();
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
      await Promise.all(this.inFlight);
    } catch (error) {
      this.haveBytesFailed = !this.failure;
      this.part?.release();
      await Promise.all(this.inFlight);
      throw error;
    }
    this.assertGoesOn();
    return this.count;
  }

  private fail(error: unknown): void {
    this.failure ??= { error };
    // The part that is being filled is released here: `sendAll` would do so only when the client's next bytes arrive.
    this.part?.release();
    this.part = undefined;
    if (!this.haveBytesFailed) this.reject(error instanceof Error ? error : new Error(String(error)));
  }

  private async add(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      // The first part may be the whole upload, so even when full it is sent only when more bytes arrive.
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
    while (this.inFlight.size >= this.options.atOnce) await Promise.race(this.inFlight);
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
      .finally(() => this.inFlight.delete(sending));
    this.inFlight.add(sending);
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

class Head {
  private chunks: Uint8Array[] = [];
  private length = 0;

  add(chunk: Uint8Array): boolean {
    if (this.length + chunk.length > FREE_BYTES) return false;
    this.chunks.push(chunk);
    this.length += chunk.length;
    if (this.chunks.length === MAX_HEAD_CHUNKS) this.chunks = [Buffer.concat(this.chunks)];
    return true;
  }

  take(): Uint8Array[] {
    return this.chunks;
  }
}
