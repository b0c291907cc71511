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
 * has no value. A latency with a control grew if its ratio did, divided by that of the control. The row of a control
 * says neither.
 *
 * @param {object} curve
 * @param {string} curve.name
 * @param {string} curve.unit
 * @param {[seconds: number, value: number][]} curve.points the points of the curve; of a latency, its medians
 * @param {[seconds: number, milliseconds: number][]} [curve.all] each latency
 * @param {[seconds: number, milliseconds: number][]} [curve.control] each latency of the control in the same run
 * @param {boolean} [curve.isControl]
 * @param {number} seconds how long the run was
 * @param {number} mostGrowth the highest ratio that counts as flat
 */
export function growthOf({ name, unit, points, all = points, control, isControl = false }, seconds, mostGrowth) {
  const quarters = quartersOf(all, seconds);
  const [second, last] = quarters.map(median);
  const ratio = last / second;
  const text = (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ${unit}`.trim();
  const row = { title: name, 'second quarter': text(second), 'last quarter': text(last), ratio: ratio.toFixed(2) };
  if (isControl) return row;
  if (control === undefined) return { ...row, '': trendOf(ratio, quarters, mostGrowth) };
  const controlQuarters = quartersOf(control, seconds);
  const [controlSecond, controlLast] = controlQuarters.map(median);
  const growth = ratio / (controlLast / controlSecond);
  return { ...row, 'beside the control': growth.toFixed(2), '': trendOf(growth, [...quarters, ...controlQuarters], mostGrowth) };
}

/** The values in the second and in the last quarter. */
const quartersOf = (points, seconds) =>
  [0.25, 0.75].map((from) => points.filter(([at]) => at >= seconds * from && at < seconds * (from + 0.25)).map(([, value]) => value));

function trendOf(growth, quarters, mostGrowth) {
  // A quarter of a short run may have no request for a page of uploads.
  if (quarters.some(({ length }) => length === 0)) return 'unknown';
  return growth <= mostGrowth ? 'flat' : 'grew';
}
