export interface PartOptions {
  /** Bytes of each part but the last. */
  readonly partBytes: number;
  /** How many are sent at once. */
  readonly atOnce: number;
}

/** What became of bytes that were sent in parts. */
export interface SentParts {
  readonly count: number;
  /** All bytes, when they are no more than one part; nothing was sent then. */
  readonly rest: Buffer;
}

/**
 * Sends bytes of unknown length in parts as they come. Holds as many parts as are sent at once, and one.
 *
 * Rejects with what the bytes throw, when no part is under way any more; and with what `send` rejects with, at once:
 * the bytes may be silent for long. They are ended then.
 *
 * @param send gets each part in a buffer that is used again when it resolves, and its number from 0.
 */
export async function sendParts(
  bytes: AsyncIterable<Uint8Array>,
  options: PartOptions,
  send: (part: Buffer, index: number) => Promise<void>,
): Promise<SentParts> {
  const sender = new PartSender(options, send);
  // One race for all: each would keep what it was given as long as the failure may still come.
  return Promise.race([sender.sendAll(bytes), sender.failing]);
}

class PartSender {
  /** Rejects when a part does. */
  readonly failing: Promise<never>;
  private fail: (error: unknown) => void = () => undefined;
  private failure: { readonly error: unknown } | undefined;
  private haveBytesFailed = false;
  private readonly underWay = new Set<Promise<void>>();
  private readonly free: Buffer[] = [];
  private part: Buffer | undefined;
  private filled = 0;
  private count = 0;

  constructor(
    private readonly options: PartOptions,
    private readonly send: (part: Buffer, index: number) => Promise<void>,
  ) {
    this.failing = new Promise((_, reject) => {
      this.fail = (error) => {
        this.failure ??= { error };
        // Whoever waits gets to know of the first: the bytes', or this.
        if (!this.haveBytesFailed) reject(error instanceof Error ? error : new Error(String(error)));
      };
    });
  }

  async sendAll(bytes: AsyncIterable<Uint8Array>): Promise<SentParts> {
    /** What may turn out to be all. */
    let head: Uint8Array[] | undefined = [];
    let size = 0;
    try {
      for await (const chunk of bytes) {
        this.assertGoesOn();
        if (head) {
          head.push(chunk);
          size += chunk.length;
          if (size <= this.options.partBytes) continue;
          for (const early of head) await this.add(early);
          head = undefined;
        } else {
          await this.add(chunk);
        }
      }
      if (head) return { count: 0, rest: Buffer.concat(head) };
      if (this.part) await this.begin(this.part);
      await Promise.all(this.underWay);
    } catch (error) {
      this.haveBytesFailed = !this.failure;
      await Promise.all(this.underWay);
      throw error;
    }
    this.assertGoesOn();
    return { count: this.count, rest: Buffer.alloc(0) };
  }

  private async add(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      const part = (this.part ??= this.free.pop() ?? Buffer.allocUnsafeSlow(this.options.partBytes));
      const piece = chunk.subarray(at, at + part.length - this.filled);
      part.set(piece, this.filled);
      this.filled += piece.length;
      at += piece.length;
      if (this.filled === part.length) await this.begin(part);
    }
  }

  private async begin(buffer: Buffer): Promise<void> {
    while (this.underWay.size >= this.options.atOnce) await Promise.race(this.underWay);
    this.assertGoesOn();
    const sending = this.send(buffer.subarray(0, this.filled), this.count)
      .then(() => {
        this.free.push(buffer);
      }, this.fail)
      .finally(() => this.underWay.delete(sending));
    this.underWay.add(sending);
    this.count += 1;
    this.part = undefined;
    this.filled = 0;
  }

  private assertGoesOn(): void {
    if (this.failure) throw this.failure.error;
  }
}
