import { randomBytes } from 'node:crypto';
import { runClient } from '../support/client.mjs';
import { MemoryMeter } from '../support/memory-meter.mjs';

const MIB = 1024 * 1024;
export const TARGET = '/ingestHistoricalLoadData/upload_historical?customer_id=acme-energy&filename=load.csv&manufacturer=acme';
const FORM = 'multipart/form-data; boundary=boundary';
const FORM_HEAD = '--boundary\r\nContent-Disposition: form-data; name="file"; filename="load.csv"\r\nContent-Type: text/csv\r\n\r\n';
const FORM_TAIL = '\r\n--boundary--\r\n';
export const SMALL_TEXT = 'meter replaced on 2003-12-04, readings before are estimates; see note 7';
const SMALL = JSON.stringify({ additional_data: SMALL_TEXT });
const MOST_WARM_UP_SECONDS = 4;
const LARGE_BYTES = 1024 * MIB;
const LARGE_WARM_UP_BYTES = 64 * MIB;
const LARGE_AT_ONCE = 4;
const LARGE_BYTES_PER_SECOND = 64 * MIB;
/** For the starts of the clients, and pauses of the machine. */
const SLACK_SECONDS = 10;

/**
 * The work of a client on a ready service: a warm-up and a measurement.
 *
 * @typedef {(service: object, seconds: number, signal: AbortSignal) =>
 *   Promise<import('../support/contests.mjs').Outcome>} Load
 */

/**
 * @returns {Load} rate (requests/s), median and p99 (ms) of one small upload that is repeated over several connections.
 */
const small = (type, body, connections, { pauseMs, isKeyed = false } = {}) => (service, seconds, signal) => {
  const warmUpSeconds = Math.min(seconds, MOST_WARM_UP_SECONDS);
  const job = { url: service.url + TARGET, type, body, connections, warmUpSeconds, seconds, pauseMs, isKeyed };
  return run(pauseMs === undefined ? 'small' : 'pausing', job, signal);
};

export const json = (connections) => small('application/json', SMALL, connections);
/** Small JSON uploads, for which each connection pauses after each answer (`pauseMs`, in milliseconds). */
export const jsonWithPauses = (connections, pauseMs) => small('application/json', SMALL, connections, { pauseMs });
/**
 * Small uploads with the same text as those of `json`, but as the file of a form, for programs that accept only files.
 */
export const form = (connections) => small(FORM, FORM_HEAD + SMALL + FORM_TAIL, connections);
const someFile = randomBytes(2048).toString('hex');
export const files4KiB = (connections) => small('text/csv', someFile, connections);
/** Files of 4 KiB, each under a new `Idempotency-Key`. */
export const keyedFiles4KiB = (connections) => small('text/csv', someFile, connections, { isKeyed: true });

/** @returns {Load} throughput (MiB/s) of one large upload, and growth of the receiving process's memory (MiB). */
const large = (request) => async (service, seconds, signal) => {
  const send = (bytes) => run('large', { url: service.url + TARGET, bytes, ...request }, signal);
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  await send(LARGE_WARM_UP_BYTES);
  const { figures, others } = await send(LARGE_BYTES);
  const { growth } = await meter.read();
  return { figures: { ...figures, growth: growth / MIB }, others };
};

export const raw1GiB = large({ type: 'application/octet-stream' });
export const form1GiB = large({ type: FORM, head: FORM_HEAD, tail: FORM_TAIL });

/**
 * The same as `json`, while four clients send at 64 MiB/s each. They are ended with it. Rejects if one of them is
 * answered before.
 */
export const jsonBesideLarge = (connections) => async (service, seconds, signal) => {
  const ending = new AbortController();
  const bytes = LARGE_BYTES_PER_SECOND * (MOST_WARM_UP_SECONDS + seconds + SLACK_SECONDS);
  const job = { url: service.url + TARGET, type: 'application/octet-stream', bytes, bytesPerSecond: LARGE_BYTES_PER_SECOND };
  const sendLarge = async () => {
    const { others } = await run('large', job, AbortSignal.any([signal, ending.signal]));
    throw new Error(`A large upload was answered before the small ones had ended: ${JSON.stringify(others)}`);
  };
  const large = Array.from({ length: LARGE_AT_ONCE }, sendLarge);
  try {
    return await Promise.race([json(connections)(service, seconds, signal), ...large]);
  } finally {
    ending.abort();
    await Promise.allSettled(large);
  }
};

const run = (client, job, signal) => runClient(new URL(`clients/${client}.mjs`, import.meta.url), job, signal);
