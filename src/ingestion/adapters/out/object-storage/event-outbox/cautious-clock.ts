import type { Bucket } from '../bucket.js';

/** An answer counts for as long as this, up to twice as long. In milliseconds. */
const WINDOW_MS = 60_000;

/**
 * The earliest time that the store's answers of the last minute allow. Of several clocks in a store, or several answers,
 * one may be minutes ahead. If it were believed, the watermark would pass segments that are still to appear.
 */
export class CautiousClock {
  /** How far the store's clock was ahead of this machine's at least, in milliseconds, in this window and the one before. */
  private aheadMs: readonly [now: number, before: number] = [Infinity, Infinity];
  private windowEnd = performance.now() + WINDOW_MS;

  constructor(private readonly bucket: Bucket) {}

  /** In milliseconds since 1970. This machine's time before the first answer. */
  get time(): number {
    const aheadMs = Math.min(...this.aheadMs);
    return aheadMs === Infinity ? this.bucket.storeTime : Date.now() + aheadMs;
  }

  /** Takes the time of the store's latest answer into account. */
  note(): void {
    const [now, before] = this.aheadMs;
    const aheadMs = this.bucket.storeTime - Date.now();
    if (performance.now() < this.windowEnd) {
      this.aheadMs = [Math.min(now, aheadMs), before];
    } else {
      this.windowEnd = performance.now() + WINDOW_MS;
      this.aheadMs = [aheadMs, now];
    }
  }
}
