import { median } from '../../bench/support/table.mjs';

const WINDOW_SECONDS = 10;

/**
 * The median of the values in each ten seconds.
 *
 * @param {readonly (readonly [seconds: number, value: number])[]} points
 * @returns {[seconds: number, median: number][]}
 */
export function medians(points) {
  const windows = new Map();
  for (const [at, value] of points) {
    const window = Math.floor(at / WINDOW_SECONDS) * WINDOW_SECONDS;
    if (!windows.has(window)) windows.set(window, []);
    windows.get(window).push(value);
  }
  return [...windows].sort(([one], [other]) => one - other).map(([at, values]) => [at, median(values)]);
}

/**
 * Compares the last quarter of a run with the second, as a row of a table: `flat` or `grew`, or `unknown` if a quarter
 * has no value.
 *
 * @param {object} curve
 * @param {string} curve.name
 * @param {string} curve.unit
 * @param {[seconds: number, value: number][]} curve.points the points of the curve; of a latency, its medians
 * @param {[seconds: number, milliseconds: number][]} [curve.all] each latency
 * @param {number} seconds how long the run was
 * @param {number} mostGrowth the highest ratio that counts as flat
 */
export function growthOf({ name, unit, points, all = points }, seconds, mostGrowth) {
  const quarter = (from, to) => all.filter(([at]) => at >= seconds * from && at < seconds * to).map(([, value]) => value);
  const quarters = [quarter(0.25, 0.5), quarter(0.75, 1)];
  const [second, last] = quarters.map(median);
  const ratio = last / second;
  const text = (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ${unit}`.trim();
  const trend = ratio <= mostGrowth ? 'flat' : 'grew';
  // A quarter of a short run may have no request for a page of uploads.
  const isKnown = quarters.every(({ length }) => length > 0);
  return { title: name, 'second quarter': text(second), 'last quarter': text(last), ratio: ratio.toFixed(2), '': isKnown ? trend : 'unknown' };
}
