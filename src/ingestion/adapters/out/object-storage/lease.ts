import { OneAtATime } from '../../../../common/one-at-a-time.js';
import type { Bucket } from './bucket.js';

const RENEW_EVERY_MS = 15_000;
/** A lease that wasn't renewed for this long, by the store's clock, counts as left by a crashed process. */
export const LOST_AFTER_MS = 60_000;

/** The object of a lease was replaced or removed, usually by a process that considered the lease's owner crashed. */
class LeaseLostError extends Error {
  constructor(key: string) {
    super(`${key} was replaced or removed by another process.`);
    this.name = new.target.name;
  }
}

interface LeaseContent {
  readonly segment: string;
}

/**
 * Shows other processes that an upload is in progress, by an object (a marker or a claim) that this process rewrites
 * every 15 s until the upload has ended, unless another process has replaced or removed the object.
 */
export class Lease<Content extends LeaseContent> {
  private readonly timer: NodeJS.Timeout;
  private readonly writes = new OneAtATime();
  private isHeld = true;
  private isLost = false;
  /** The contents of the object's writes that failed or are in flight: the store may have carried out any of them. */
  private readonly doubtful = new Set<string>();

  constructor(
    private readonly bucket: Bucket,
    readonly key: string,
    private content: Content,
    private version: string,
  ) {
    this.timer = setInterval(() => {
      this.write().catch(() => {
        // A failed renewal is harmless: a process that considers this one crashed puts a fence in place of the missing
        // segment.
      });
    }, RENEW_EVERY_MS).unref();
  }

  get current(): Content {
    return this.content;
  }

  /**
   * Writes the key of the upload's segment to the lease's object, unless `current` has it already. Call it before
   * `end`.
   *
   * @throws LeaseLostError if another process has replaced or removed the object; an error of the bucket.
   */
  async setSegment(segment: string): Promise<void> {
    if (this.isLost) throw new LeaseLostError(this.key);
    if (segment !== this.content.segment) await this.rewrite({ ...this.content, segment });
  }

  /** Writes another content to the lease's object. Call it before `end`. Throws what `setSegment` throws. */
  async rewrite(content: Content): Promise<void> {
    if (this.isLost) throw new LeaseLostError(this.key);
    this.content = content;
    await this.write();
  }

  /** Stops renewing the lease's object. Resolves when no write of the object is in flight. */
  async end(): Promise<void> {
    this.isHeld = false;
    clearInterval(this.timer);
    await this.writes.run(() => Promise.resolve());
  }

  /**
   * Ends the lease, then writes its content once more, with a verdict on the upload, such as `failed: true`.
   *
   * @returns false if nothing was written, because another process has already replaced or removed the lease's object.
   * @throws an error of the bucket; `endWith` can then be called again.
   */
  async endWith(verdict: Partial<Content>): Promise<boolean> {
    await this.end();
    return this.replace({ ...this.content, ...verdict });
  }

  private write(): Promise<void> {
    return this.writes.run(async () => {
      if (!this.isHeld || (await this.replace(this.content))) return;
      this.isLost = true;
      throw new LeaseLostError(this.key);
    });
  }

  private async replace(content: Content): Promise<boolean> {
    const text = JSON.stringify(content);
    const bytes = Buffer.from(text);
    const mayBeOwn = this.doubtful.size > 0;
    this.doubtful.add(text);
    let version = await this.bucket.replace(this.key, bytes, this.version);
    if (version === undefined && mayBeOwn) {
      const found = await this.bucket.read(this.key);
      if (found && this.doubtful.has(found.bytes.toString())) version = await this.bucket.replace(this.key, bytes, found.version);
    }
    this.doubtful.clear();
    if (version === undefined) return false;
    this.version = version;
    return true;
  }
}
