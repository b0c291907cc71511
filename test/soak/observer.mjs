import { readdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { MemoryMeter } from '../../bench/support/memory-meter.mjs';
import { GarbageCollector } from './garbage-collector.mjs';

const SAMPLE_MS = 1_000;
/** How many samples are taken per reading of `/metrics`, and per reading of memory (after a garbage collection). */
const METRICS_EVERY = 5;
const MEMORY_EVERY = 10;
/** Longer than connections to stores and identity providers stay open idle. */
const REST_MS = 30_000;
const MIB = 1024 * 1024;

/**
 * Samples a service process each second, as Linux and `/metrics` report it.
 *
 * @typedef {object} Sample
 * @property {number} at seconds since the start
 * @property {number} [memory] resident memory after the garbage was collected, in MiB; read every 10 s
 * @property {number} descriptors without those of the load's connections
 * @property {number} threads
 * @property {number} [lag] mean lag of the event loop since the last reading, in milliseconds; read every 5 s
 */

/**
 * Samples a service until the signal is aborted.
 *
 * @param {{ url: string, child: { pid: number } }} service
 * @param {() => number} connections the number of the load's connections to the service
 * @param {AbortSignal} signal
 * @param {(sample: Sample) => void} onSample
 */
export async function observe(service, connections, signal, onSample) {
  const began = performance.now();
  const meter = new MemoryMeter(service.child.pid);
  const collector = await GarbageCollector.connect(service);
  for (let index = 0; !signal.aborted; index++) {
    const [descriptors, threads] = await Promise.all([countOf(service, 'fd'), countOf(service, 'task')]);
    const at = (performance.now() - began) / 1000;
    const lag = index % METRICS_EVERY === 0 ? { lag: await meanLag(service.url) } : {};
    const memory = index % MEMORY_EVERY === 0 ? { memory: await memoryInUse(collector, meter) } : {};
    onSample({ at, descriptors: descriptors - connections(), threads, ...memory, ...lag });
    await delay(Math.max(0, SAMPLE_MS * (index + 1) - (performance.now() - began)), undefined, { signal }).catch(() => undefined);
  }
  collector.close();
}

/** How many descriptors a service has open. Those of its clients' connections count, too. */
export const openDescriptors = (service) => countOf(service, 'fd');

/**
 * Waits until a service without load has no more than this many descriptors open, for at most 30 seconds.
 *
 * @returns {Promise<number>} how many are open then
 */
export async function descriptorsAtRest(service, most) {
  const endsAt = performance.now() + REST_MS;
  for (;;) {
    const open = await openDescriptors(service);
    if (open <= most || performance.now() > endsAt) return open;
    await delay(SAMPLE_MS);
  }
}

const countOf = async (service, name) => (await readdir(`/proc/${service.child.pid}/${name}`)).length;

async function memoryInUse(collector, meter) {
  await collector.collect();
  return (await meter.now()) / MIB;
}

async function meanLag(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^nodejs_eventloop_lag_mean_seconds (\S+)/m.exec(text)?.[1]) * 1000;
}
