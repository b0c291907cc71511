import type { Bucket } from '../bucket.js';

/** The objects in `events/` that can be removed: those whose events were all confirmed, and malformed ones. */
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
   * Removes the added objects from the bucket. After a confirmation of events, write the cursor first.
   *
   * @throws errors of the bucket; the next call tries again.
   */
  async remove(): Promise<void> {
    const keys = [...this.keys];
    if (keys.length === 0) return;
    await this.bucket.remove(keys);
    for (const key of keys) this.keys.delete(key);
  }
}
