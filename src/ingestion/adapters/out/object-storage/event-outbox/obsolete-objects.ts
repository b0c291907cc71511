import type { Bucket } from '../bucket.js';

/** Objects in `events/` that are no longer needed, because all their events were confirmed. */
export class ObsoleteObjects {
  private readonly keys = new Set<string>();

  constructor(private readonly bucket: Bucket) {}

  add(key: string): void {
    this.keys.add(key);
  }

  has(key: string): boolean {
    return this.keys.has(key);
  }

  /**
   * Removes these objects from the bucket. After a confirmation, write the cursor first. Throws errors of the bucket;
   * the next call tries again.
   */
  async remove(): Promise<void> {
    const keys = [...this.keys];
    if (keys.length === 0) return;
    await this.bucket.remove(keys);
    for (const key of keys) this.keys.delete(key);
  }
}
