import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const SAMPLE_MS = 1_000;
/** Every so many samples `/metrics` is read. */
const METRICS_EVERY = 5;
const MIB = 1024 * 1024;

/**
 * Samples a service process each second, as Linux and `/metrics` report it.
 *
 * @typedef {object} Sample
 * @property {number} at seconds since the start
 * @property {number} memory resident memory, in MiB
 * @property {number} descriptors
 * @property {number} threads
 * @property {number} [lag] mean lag of the event loop since the last reading, in milliseconds; read every 5 s
 */

/**
 * Samples a service until the signal is aborted.
 *
 * @param {{ url: string, child: { pid: number } }} service
 * @param {AbortSignal} signal
 * @param {(sample: Sample) => void} onSample
 */
export async function observe(service, signal, onSample) {
  const began = performance.now();
  const proc = `/proc/${service.child.pid}`;
  for (let count = 0; !signal.aborted; count++) {
    const [status, descriptors] = await Promise.all([readFile(`${proc}/status`, 'utf8'), readdir(`${proc}/fd`)]);
    const number = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
    const at = (performance.now() - began) / 1000;
    const lag = count % METRICS_EVERY === 0 ? { lag: await meanLag(service.url) } : {};
    onSample({ at, memory: (number('VmRSS') * 1024) / MIB, descriptors: descriptors.length, threads: number('Threads'), ...lag });
    await delay(Math.max(0, SAMPLE_MS * (count + 1) - (performance.now() - began)), undefined, { signal }).catch(() => undefined);
  }
}

async function meanLag(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^nodejs_eventloop_lag_mean_seconds (\S+)/m.exec(text)?.[1]) * 1000;
}
