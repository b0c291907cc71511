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

/**
 * 600 clients that declare 100 MB, send 5,000,000 bytes, fall silent for 20 s, and leave; the same again a minute later.
 * By how much the service's memory grows at most (`growth`), and how much more there is a minute after the second crowd
 * than a minute after the first (`left`, both MiB): what a process takes once and keeps is no leak.
 */
export async function silentClients(service, _seconds, signal) {
  // What the first uploads take anyway is no growth.
  await json(8)(service, 1, signal);
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  await silentCrowd(service, signal);
  const { growth } = await meter.read();
  const afterFirst = await meter.now();
  await silentCrowd(service, signal);
  return { figures: { growth: growth / MIB, left: ((await meter.now()) - afterFirst) / MIB }, others: {} };
}

/** Resolves a minute after it left. */
async function silentCrowd(service, signal) {
  const program = fileURLToPath(new URL('clients/silent.mjs', import.meta.url));
  const job = JSON.stringify({ port: service.port, target: TARGET, ...SILENT });
  const clients = spawn(process.execPath, [program, job], { stdio: ['pipe', 'pipe', 'inherit'], signal });
  const ended = once(clients, 'close');
  // The caller hears of it by its own signal.
  ended.catch(() => undefined);
  await Promise.race([once(clients.stdout, 'data'), ended]);
  await delay(SILENT_S * 1000, undefined, { signal });
  clients.stdin.end();
  await ended;
  await delay(MINUTE_S * 1000, undefined, { signal });
}
