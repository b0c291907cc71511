import type { Bucket } from './bucket.js';

const RENEW_EVERY_MS = 15_000;
/** An object that wasn't written for so many milliseconds, by the store's clock, belongs to a process that is lost. */
export const LOST_AFTER_MS = 60_000;

/** Somebody who took its owner for lost has replaced or removed it. */
export class LeaseLostError extends Error {
  constructor(key: string) {
    super(`${key} is another's now.`);
    this.name = new.target.name;
  }
}

interface LeaseContent {
  /** Where the line will be, alone. */
  readonly segment: string;
}

/** What tells others about an upload under way: an object that is written again and again until the upload has ended. */
export class Lease<Content extends LeaseContent> {
  private readonly timer: NodeJS.Timeout;
  private writing: Promise<void> = Promise.resolve();
  private isHeld = true;
  /** Whether a renewal found another object in its place. */
  private isLost = false;
  /** What may have been written, though no answer came. */
  private doubtful: Buffer | undefined;

  constructor(
    private readonly bucket: Bucket,
    readonly key: string,
    private content: Content,
    private version: string,
  ) {
    this.timer = setInterval(() => {
      this.write().catch(() => {
        // Whoever is taken for lost finds a fence where its line is to stand.
      });
    }, RENEW_EVERY_MS).unref();
  }

  /** What it says, or was to say at last. */
  get current(): Content {
    return this.content;
  }

  /** Resolves when the object says where the line will be. @throws LeaseLostError; what the bucket throws. */
  async tellSegment(segment: string): Promise<void> {
    if (this.isLost) throw new LeaseLostError(this.key);
    if (segment === this.content.segment) return;
    this.content = { ...this.content, segment };
    await this.write();
  }

  /** Writes it no more; resolves when no writing is under way. */
  async end(): Promise<void> {
    this.isHeld = false;
    clearInterval(this.timer);
    await this.writing.catch(() => undefined);
  }

  /**
   * Ends it with a last word, which others take for final.
   *
   * @returns false when somebody else decided before; throws what the bucket throws, and may be called again.
   */
  async endWith(verdict: Partial<Content>): Promise<boolean> {
    await this.end();
    return this.replace({ ...this.content, ...verdict });
  }

  private write(): Promise<void> {
    const writing = this.writing
      .catch(() => undefined)
      .then(async () => {
        if (!this.isHeld || (await this.replace(this.content))) return;
        this.isLost = true;
        throw new LeaseLostError(this.key);
      });
    this.writing = writing;
    return writing;
  }

  private async replace(content: Content): Promise<boolean> {
    const bytes = Buffer.from(JSON.stringify(content));
    const before = this.doubtful;
    this.doubtful = bytes;
    let version = await this.bucket.replace(this.key, bytes, this.version);
    if (version === undefined && before) {
      const found = await this.bucket.read(this.key);
      if (found && (found.bytes.equals(before) || found.bytes.equals(bytes))) version = await this.bucket.replace(this.key, bytes, found.version);
    }
    this.doubtful = undefined;
    if (version === undefined) return false;
    this.version = version;
    return true;
  }
}
