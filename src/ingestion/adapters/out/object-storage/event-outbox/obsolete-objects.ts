import type { Bucket } from '../bucket.js';

/** Objects in `events/` that were told, and are to be removed. */
export class ObsoleteObjects {
  private readonly keys = new Set<string>();

  constructor(private readonly bucket: Bucket) {}

  add(key: string): void {
    this.keys.add(key);
  }

  has(key: string): boolean {
    return this.keys.has(key);
  }

  /** Removes them. Call it when the cursor was written. Throws errors of the bucket; the next call tries again. */
  async remove(): Promise<void> {
    const keys = [...this.keys];
    if (keys.length === 0) return;
    await this.bucket.remove(keys);
    for (const key of keys) this.keys.delete(key);
  }
}
