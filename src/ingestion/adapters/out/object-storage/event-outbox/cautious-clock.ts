import type { Bucket } from '../bucket.js';

/**
 * How long the time in an answer of the store is taken into account, in milliseconds: at least this long, and at most
 * about twice as long if `note` is called often.
 */
const WINDOW_MS = 60_000;

/**
 * A cautious estimate of the store's time: the earliest time that is possible by the answers noted in about the last
 * two minutes. A store may have several clocks, and one answer may be minutes ahead. If such an answer were believed,
 * the event outbox would move its watermark too far forward. It would never list segments that appear later with
 * earlier times in their names, so their events would never be delivered.
 */
export class CautiousClock {
  /**
   * By how much the store's clock was ahead of this machine's, in milliseconds: the lowest value among the answers
   * noted in the current window of at least WINDOW_MS (`now`), and in the window before (`before`). Infinity if there
   * is none yet.
   */
  private aheadMs: readonly [now: number, before: number] = [Infinity, Infinity];
  private windowEnd = performance.now() + WINDOW_MS;

  constructor(private readonly bucket: Bucket) {}

  /** The estimated time, in milliseconds since 1970. Before the first call of `note`, the bucket's `storeTime`. */
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
