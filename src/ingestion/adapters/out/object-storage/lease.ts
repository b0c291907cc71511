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

/** What tells others about an upload under way: an object that is written again and again until the upload has ended. */
export class Lease<Content extends { readonly segment: string | null }> {
  private readonly timer: NodeJS.Timeout;
  private writing: Promise<void> = Promise.resolve();
  private held = true;

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

  /** Resolves when the object says where the line will be. @throws LeaseLostError; what the bucket throws. */
  async tellSegment(segment: string): Promise<void> {
    if (segment === this.content.segment) return;
    this.content = { ...this.content, segment };
    await this.write();
  }

  /** Writes it no more; resolves to the version that the object has, if nobody else wrote it. */
  async end(): Promise<string> {
    this.held = false;
    clearInterval(this.timer);
    await this.writing.catch(() => undefined);
    return this.version;
  }

  private write(): Promise<void> {
    const writing = this.writing.catch(() => undefined).then(() => this.writeNow());
    this.writing = writing;
    return writing;
  }

  private async writeNow(): Promise<void> {
    if (!this.held) return;
    const version = await this.bucket.replace(this.key, Buffer.from(JSON.stringify(this.content)), this.version);
    if (version === undefined) throw new LeaseLostError(this.key);
    this.version = version;
  }
}
