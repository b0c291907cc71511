import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';
import { type SeenLine, toIndexLines } from './index-lines.js';

/** The contents of a service's bucket, read with a `Bucket` instead of the service's file storage adapter. */
export class BucketView {
  constructor(private readonly bucket: Bucket) {}

  /** All lines of the index segments in the bucket, parsed. Throws if a segment ends in a torn line. */
  async lines(): Promise<SeenLine[]> {
    const segments = await Promise.all((await this.keys('uploads/')).map((key) => this.bucket.read(key)));
    return toIndexLines(segments.map((segment) => segment?.bytes.toString() ?? ''));
  }

  contentPaths(): Promise<string[]> {
    return this.keys('files/');
  }

  /** The bytes of the object with this key; null if there is no such object. */
  async bytes(key: string): Promise<Buffer | null> {
    return (await this.bucket.read(key))?.bytes ?? null;
  }

  async keys(prefix = ''): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.bucket.list(prefix)) keys.push(key);
    return keys;
  }
}
