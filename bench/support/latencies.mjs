/**
 * The figures of a measurement: rate (requests/s), and median and p99 of the latency (ms).
 *
 * @param {number[]} latencies the latencies of the answered requests, in milliseconds
 * @param {number} seconds how long the measurement took
 */
export function figuresOf(latencies, seconds) {
  const sorted = Float64Array.from(latencies).sort();
  const percentile = (share) => sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
  return { rate: sorted.length / seconds, median: percentile(0.5), p99: percentile(0.99) };
}
