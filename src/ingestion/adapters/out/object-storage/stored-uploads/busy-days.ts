import { MINUTE_MS } from '../../../../../common/durations.js';
import { type Day, directoryOf } from '../segment-names.js';

/** After this time, the rate of a day may be another one. */
const MAX_AGE_MS = 10 * MINUTE_MS;
/** Spans are chosen that held this many times the segments that a page needs, in case there are fewer now. */
const MARGIN = 4;
const MAX_DAYS = 8;

interface Rate {
  readonly segmentsPerMs: number;
  readonly notedAt: number;
}

/**
 * How many segments uploads were creating when the current day was last listed. It only saves requests: a list finds the
 * same uploads without it, or if it is wrong.
 */
export class BusyDays {
  private readonly rates = new Map<string, Rate>();

  /** Notes that a day has more segments than one listing returns, `count` of them from `begin` to `end` (in ms since 1970). */
  note(day: Day, count: number, begin: number, end: number): void {
    const key = directoryOf(day);
    this.rates.delete(key);
    this.rates.set(key, { segmentsPerMs: count / Math.max(1, end - begin), notedAt: end });
    for (const oldest of this.rates.keys()) if (this.rates.size > MAX_DAYS) this.rates.delete(oldest);
  }

  /** The first of these spans of time, in ms, that are enough for `count` segments (see MARGIN); undefined if that isn't known. */
  spansWith(day: Day, count: number, spans: readonly number[], now: number): readonly number[] | undefined {
    const rate = this.rates.get(directoryOf(day));
    if (!rate || Math.abs(now - rate.notedAt) > MAX_AGE_MS) return undefined;
    const neededMs = (MARGIN * count) / rate.segmentsPerMs;
    let coveredMs = 0;
    const enough = spans.findIndex((span) => (coveredMs += span) >= neededMs);
    return enough < 0 ? spans : spans.slice(0, enough + 1);
  }
}
