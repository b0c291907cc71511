import { OneAtATime } from '../../../../common/one-at-a-time.js';
import type { Bucket } from './bucket.js';

const RENEW_EVERY_MS = 15_000;
/**
 * A lease that wasn't renewed for this long counts as left by a crashed process. In milliseconds, by the store's clock.
 */
export const LOST_AFTER_MS = 60_000;

/**
 * The object of a lease was replaced or removed, usually by another process that considered the lease's owner crashed.
 */
export class LeaseLostError extends Error {
  constructor(key: string) {
    super(`${key} was replaced or removed by another process.`);
    this.name = new.target.name;
  }
}

interface LeaseContent {
  /** The key of the segment (object) that will contain the upload's index line, and no other. */
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
  /** Whether a write has found that another process had replaced or removed the lease's object. */
  private isLost = false;
  /**
   * The contents of the writes of the lease's object whose results aren't known, because they failed or are in
   * progress: the store may have carried out any of them. Empty if the result of the last write is known.
   */
  private readonly doubtful = new Set<string>();

  constructor(
    private readonly bucket: Bucket,
    readonly key: string,
    private content: Content,
    private version: string,
  ) {
    this.timer = setInterval(() => {
      this.write().catch(() => {
        // A failed renewal is harmless. If other processes then consider this one crashed, and the upload's segment
        // doesn't exist yet, they put a fence (an empty object) in its place, and this process can't write the upload's
        // line.
      });
    }, RENEW_EVERY_MS).unref();
  }

  /** The content that this process has last written or tried to write to the lease's object, without a verdict. */
  get current(): Content {
    return this.content;
  }

  /**
   * Writes the key of the upload's segment to the lease's object, unless `current` has this key already. Call it before
   * `end`. After it has resolved, other processes can read the key.
   *
   * @throws LeaseLostError if another process has replaced or removed the object; an error of the bucket.
   */
  async setSegment(segment: string): Promise<void> {
    if (this.isLost) throw new LeaseLostError(this.key);
    if (segment === this.content.segment) return;
    this.content = { ...this.content, segment };
    await this.write();
  }

  /** Stops renewing the lease's object. Resolves when no write of the object is in flight. */
  async end(): Promise<void> {
    this.isHeld = false;
    clearInterval(this.timer);
    await this.writes.run(() => Promise.resolve());
  }

  /**
   * Ends the lease, then writes its content to the lease's object once more, with a verdict on the upload, such as
   * `failed: true`.
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
