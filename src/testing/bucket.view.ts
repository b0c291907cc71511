import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';

/** What stands in a bucket, read as anyone might, without the service. */
export class BucketView {
  constructor(private readonly bucket: Bucket) {}

  /** All index lines, parsed. Throws when one of them is torn. */
  async lines(): Promise<{ upload_id: string; content_path: string | null; content_sha256: string | null }[]> {
    const segments = await Promise.all((await this.keys('uploads/')).map((key) => this.bucket.read(key)));
    return segments.flatMap((segment) => {
      const lines = (segment?.bytes.toString() ?? '').split('\n');
      if (lines.pop() !== '') throw new Error('A segment has a torn end.');
      return lines.map((line) => JSON.parse(line) as Awaited<ReturnType<BucketView['lines']>>[number]);
    });
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
