import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runClient } from '../support/client.mjs';
import { MemoryMeter } from '../support/memory-meter.mjs';
import { median } from '../support/table.mjs';
import { json, TARGET } from '../uploads/loads.mjs';

const MIB = 1024 * 1024;
const MINUTE_S = 60;
const SETTLED_S = 10;
const SPAN_S = 10;
const SAMPLE_EVERY_MS = 250;
const SILENT = { connections: 600, declared: 100_000_000, sent: 5_000_000 };
const SILENT_S = 20;

/**
 * Measures rate (requests/s), median and p99 (ms) of one client of the AWS SDK that PUTs objects with one index line
 * each, one after another.
 */
export function putObjects(store, seconds, signal) {
  const program = new URL('clients/put-object.mjs', import.meta.url);
  return runClient(program, { warmUpSeconds: seconds, seconds }, signal, store.variables);
}

/**
 * Uploads small JSON over 128 connections for a minute, and measures the memory of the service (MiB): `settled` is its
 * median from second 10 to second 20, `last` its median in the last 10 s.
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

/**
 * 600 clients declare a file of 100 MB, send 5,000,000 bytes of it, stall for 20 s, and disconnect. A minute later, 600
 * clients do the same again. Measures the largest growth of the service's memory (`growth`), and the growth that is
 * left a minute after the clients have disconnected, the larger of the two times (`kept`), both in MiB.
 */
export async function silentClients(service, _seconds, signal) {
  // The memory that the service's first uploads take doesn't count as growth, so they come before the measurement.
  await json(8)(service, 1, signal);
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  const after = [];
  for (let crowd = 0; crowd < 2; crowd++) {
    await silentCrowd(service, signal);
    after.push(await meter.now());
  }
  const { before, growth } = await meter.read();
  return { figures: { growth: growth / MIB, kept: (Math.max(...after) - before) / MIB }, others: {} };
}

/** Connects 600 silent clients and disconnects them after 20 s. Resolves a minute after they have disconnected. */
async function silentCrowd(service, signal) {
  const program = fileURLToPath(new URL('clients/silent.mjs', import.meta.url));
  const job = JSON.stringify({ port: service.port, target: TARGET, ...SILENT });
  const clients = spawn(process.execPath, [program, job], { stdio: ['pipe', 'pipe', 'inherit'], signal });
  const ended = once(clients, 'close');
  // An abort of `signal` also rejects `ended`, maybe before anything waits for it. The caller learns of the abort from
  // its own signal.
  ended.catch(() => undefined);
  await Promise.race([once(clients.stdout, 'data'), ended]);
  await delay(SILENT_S * 1000, undefined, { signal });
  clients.stdin.end();
  await ended;
  await delay(MINUTE_S * 1000, undefined, { signal });
}
