import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';
import { type SeenLine, toIndexLines } from './index-lines.js';

/** What stands in a bucket, read as anyone might, without the service. */
export class BucketView {
  constructor(private readonly bucket: Bucket) {}

  /** All index lines, parsed. Throws when one of them is torn. */
  async lines(): Promise<SeenLine[]> {
    const segments = await Promise.all((await this.keys('uploads/')).map((key) => this.bucket.read(key)));
    return toIndexLines(segments.map((segment) => segment?.bytes.toString() ?? ''));
  }

  contentPaths(): Promise<string[]> {
    return this.keys('files/');
  }

  /** Null when there is no such object. */
  async bytes(key: string): Promise<Buffer | null> {
    return (await this.bucket.read(key))?.bytes ?? null;
  }

  async keys(prefix = ''): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.bucket.list(prefix)) keys.push(key);
    return keys;
  }
}
