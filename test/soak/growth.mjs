import { median } from '../../bench/support/table.mjs';

const WINDOW_SECONDS = 10;
/** A latency isn't compared with a control that changed by more than this: the two don't change quite alike. */
const MOST_CHANGE = 1.25;

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
 * has no value. Latencies are compared by their medians, the others by their means. The ratio of a latency is divided
 * by that of its control before it is judged; it is `unknown` if the control changed by more than a quarter. The row of
 * a control has no verdict.
 *
 * @param {object} curve
 * @param {string} curve.name
 * @param {string} curve.unit
 * @param {[seconds: number, value: number][]} curve.points the points of the curve; of a latency, its medians
 * @param {[seconds: number, milliseconds: number][]} [curve.all] each latency, if the curve is one of latencies
 * @param {[seconds: number, milliseconds: number][]} [curve.control] each latency of the control in the same run
 * @param {boolean} [curve.isControl]
 * @param {number} seconds how long the run was
 * @param {number} mostGrowth the highest ratio that counts as flat
 */
export function growthOf({ name, unit, points, all, control, isControl = false }, seconds, mostGrowth) {
  const quarters = quartersOf(all ?? points, seconds);
  const [second, last] = quarters.map(all ? median : mean);
  const ratio = last / second;
  const text = (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ${unit}`.trim();
  const row = { title: name, 'second quarter': text(second), 'last quarter': text(last), ratio: ratio.toFixed(2) };
  if (isControl) return row;
  if (control === undefined) return { ...row, '': trendOf(ratio, quarters, mostGrowth) };
  const controlQuarters = quartersOf(control, seconds);
  const [controlSecond, controlLast] = controlQuarters.map(median);
  const change = controlLast / controlSecond;
  const growth = ratio / change;
  const isComparable = change <= MOST_CHANGE && change >= 1 / MOST_CHANGE;
  return { ...row, 'beside the control': growth.toFixed(2), '': isComparable ? trendOf(growth, quarters, mostGrowth) : 'unknown' };
}

/** Memory and descriptors vary between few usual values, so that their median may jump. */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The values in the second and in the last quarter. */
const quartersOf = (points, seconds) =>
  [0.25, 0.75].map((from) => points.filter(([at]) => at >= seconds * from && at < seconds * (from + 0.25)).map(([, value]) => value));

function trendOf(growth, quarters, mostGrowth) {
  // A quarter of a short run may have no request for a page of uploads.
  if (quarters.some(({ length }) => length === 0)) return 'unknown';
  return growth <= mostGrowth ? 'flat' : 'grew';
}
