import { setTimeout as delay } from 'node:timers/promises';
import { runClient } from '../support/client.mjs';
import { MemoryMeter } from '../support/memory-meter.mjs';
import { median } from '../support/table.mjs';
import { json } from '../uploads/loads.mjs';

const MIB = 1024 * 1024;
const MINUTE_S = 60;
const SETTLED_S = 10;
const SPAN_S = 10;
const SAMPLE_EVERY_MS = 250;

/** Rate (requests/s), median and p99 (ms) of one caller of the SDK that PUTs index lines, one after the other. */
export function putObjects(store, seconds, signal) {
  const program = new URL('clients/put-object.mjs', import.meta.url);
  return runClient(program, { warmUpSeconds: seconds, seconds }, signal, store.variables);
}

/**
 * Small JSON over 128 connections for a minute, and what memory the service has meanwhile: `settled` is the median of
 * the 10 s that follow the first 10, `last` that of the last 10 s (MiB).
 */
export async function jsonForAMinute(service, seconds, signal) {
  const meter = new MemoryMeter(service.child.pid);
  const samples = [];
  const began = performance.now();
  const running = new AbortController();
  const sampling = (async () => {
    while (!running.signal.aborted) {
      samples.push({ at: (performance.now() - began) / 1000, bytes: await meter.now() });
      await delay(SAMPLE_EVERY_MS);
    }
  })();
  try {
    const { figures, others } = await json(128)(service, MINUTE_S, signal);
    const ended = (performance.now() - began) / 1000;
    const within = (from, to) => median(samples.filter(({ at }) => at >= from && at < to).map(({ bytes }) => bytes / MIB));
    const settled = within(SETTLED_S, SETTLED_S + SPAN_S);
    return { figures: { rate: figures.rate, settled, last: within(ended - SPAN_S, ended) }, others };
  } finally {
    running.abort();
    await sampling;
  }
}
