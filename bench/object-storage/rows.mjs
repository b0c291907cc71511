import { atLeast, atMost, below, row } from '../support/goals.mjs';

/**
 * The rows of the bench. Each has a goal that the medians of its figures over the rounds must reach. Most compare a
 * figure of one entrant of a contest with a figure of another entrant, or with another figure of the same entrant. The
 * figures growth and kept have only an upper limit.
 *
 * Figures: rate (requests/s), throughput (MiB/s), median latency (ms), memory of the service: settled, last, growth and
 * kept (MiB; see loads.mjs).
 */
export const ROWS = [
  row('json-128', 'small JSON, 128 connections', 'json-128', ['service', 'rate'], ['putEach', 'rate'], atLeast(5)),
  row('pauses', 'small JSON, 128 connections that pause 5 ms', 'json-128-pauses', ['service', 'rate'], ['putEach', 'rate'], atLeast(3)),
  row('latency', 'small JSON, 1 connection, median', 'json-1', ['service', 'median'], ['direct', 'median'], atMost(1.15)),
  row('raw', '1 GiB raw', '1-gib', ['raw', 'throughput'], ['streamed', 'throughput'], atLeast(0.95)),
  row('memory', 'memory after 50 s at 128 connections', 'memory', ['service', 'last'], ['service', 'settled'], atMost(1.05)),
  row('silent', '600 silent clients, growth of memory', 'silent', ['service', 'growth'], undefined, below(300, 'MiB')),
  row('silent-kept', 'silent clients, kept a minute after they have left', 'silent', ['service', 'kept'], undefined, below(40, 'MiB')),
];
