import { atLeast, atMost, below, noLater, row } from '../support/goals.mjs';

/**
 * The rows of the bench. Most compare a figure of one entrant of a contest with a figure of another entrant, or with
 * another figure of the same entrant; growth has only an upper limit. The goal applies to the medians of the figures
 * over the rounds.
 *
 * Figures: rate (requests/s), throughput (MiB/s), growth of memory (MiB), median and p99 latency, and boot time (ms).
 */
export const ROWS = [
  row('json-32', 'small JSON, 32 connections', 'json-32', ['service', 'rate'], ['bareStore', 'rate'], atLeast(0.8)),
  row('json-128', 'small JSON, 128 connections', 'json-128', ['service', 'rate'], ['bareStore', 'rate'], atLeast(0.8)),
  row('store-32', 'our store, small JSON, 32 connections', 'json-32', ['bareStore', 'rate'], ['bareAppend', 'rate'], atLeast(0.9)),
  row('store-128', 'our store, small JSON, 128 connections', 'json-128', ['bareStore', 'rate'], ['bareAppend', 'rate'], atLeast(0.9)),
  row('log', 'log line a request, 128 connections', 'json-128', ['logging', 'rate'], ['silent', 'rate'], atLeast(0.93)),
  row('traces', 'traces of all requests, 128 connections', 'json-128', ['traced', 'rate'], ['service', 'rate'], atLeast(0.5)),
  row('traces-1', 'traces of 1 % of requests, 128 connections', 'json-128', ['sampled', 'rate'], ['service', 'rate'], atLeast(0.8)),
  row('multer', 'small, 32 connections', 'json-32', ['service', 'rate'], ['multer', 'rate'], atLeast(2)),
  row('multer-flush', 'small, 32 connections', 'json-32', ['service', 'rate'], ['multerFlush', 'rate'], atLeast(3.5)),
  row('json-1', 'small JSON, 1 connection', 'json-1', ['service', 'rate'], ['append', 'rate'], atLeast(0.9)),
  row('raw', '1 GiB raw', '1-gib', ['raw', 'throughput'], ['streamed', 'throughput'], atLeast(1)),
  row('raw-memory', '1 GiB raw, growth of memory', '1-gib', ['raw', 'growth'], undefined, below(150, 'MiB')),
  row('form', '1 GiB multipart', '1-gib', ['form', 'throughput'], ['streamed', 'throughput'], atLeast(1)),
  row('form-memory', '1 GiB multipart, growth of memory', '1-gib', ['form', 'growth'], undefined, below(150, 'MiB')),
  row('beside', 'small JSON, 8 connections, beside 4 x 64 MiB/s', 'beside', ['service', 'rate'], ['streamed', 'rate'], atLeast(2)),
  row('files', '4 KiB files, 32 connections', 'files-4-kib', ['service', 'rate'], ['streamed', 'rate'], atLeast(1.5)),
  row('p99', 'p99 to median, 32 connections', 'json-32', ['service', 'p99'], ['service', 'median'], atMost(2.5)),
  row('p99-128', 'p99 to median, 128 connections', 'json-128', ['service', 'p99'], ['service', 'median'], atMost(2.5)),
  row('boot', 'boot to ready', 'json-32', ['service', 'boot'], undefined, below(600, 'ms')),
  row('held-rate', '1,000,000 uploads held, 32 connections', 'held', ['full', 'rate'], ['empty', 'rate'], atLeast(0.9)),
  row('held-boot', '1,000,000 uploads held, boot', 'held', ['full', 'boot'], ['empty', 'boot'], noLater(0.1, 100)),
];
