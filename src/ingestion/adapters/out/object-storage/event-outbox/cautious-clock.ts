import type { Bucket } from '../bucket.js';

const WINDOW_MS = 60_000;

/**
 * The store's time by the answer with the slowest clock of those noted in the last one to two minutes. A store may have
 * several clocks, and one answer may be minutes ahead. If it were believed, the watermark of the event outbox would
 * move too far, and the events of segments that appear later with earlier times would never be delivered.
 */
export class CautiousClock {
  private aheadMs: readonly [now: number, before: number] = [Infinity, Infinity];
  private windowEnd = performance.now() + WINDOW_MS;

  constructor(private readonly bucket: Bucket) {}

  get time(): number {
    const aheadMs = Math.min(...this.aheadMs);
    return aheadMs === Infinity ? this.bucket.storeTime : Date.now() + aheadMs;
  }

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
