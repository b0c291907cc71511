import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';
import { type SeenLine, toIndexLines } from './index-lines.js';

/** The contents of the service's bucket, read without the service's file storage adapter. */
export class BucketView {
  constructor(private readonly bucket: Bucket) {}

  /** The parsed lines of all index segments. Throws if an index segment ends in an incomplete line. */
  async lines(): Promise<SeenLine[]> {
    const segments = await Promise.all((await this.keys('uploads/')).map((key) => this.bucket.read(key)));
    return toIndexLines(segments.map((segment) => segment?.bytes.toString() ?? ''));
  }

  contentPaths(): Promise<string[]> {
    return this.keys('files/');
  }

  async bytes(key: string): Promise<Buffer | null> {
    return (await this.bucket.read(key))?.bytes ?? null;
  }

  async keys(prefix = ''): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.bucket.list(prefix)) keys.push(key);
    return keys;
  }
}
