import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { HOSTILE_BODIES } from './pauses/bodies.mjs';
import { LiveProbe } from './pauses/live-probe.mjs';
import { MemoryMeter } from './support/memory-meter.mjs';
import { Progress } from './support/progress.mjs';
import { withServices } from './support/service.mjs';
import { askBySignal } from './support/signal-question.mjs';

const MIB = 1024 * 1024;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.json&manufacturer=m';
const MOST_PAUSE_MS = 50;
const MOST_LATENCY_MS = 250;

/**
 * Measures how long expensive requests block the service's event loop and delay its answer to `/health/live`. Each row
 * of the table has its own service.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function pauses(parameters) {
  const { values } = parseArgs({ args: parameters, options: { only: { type: 'string' }, at: { type: 'string', default: '60' } } });
  const progress = new Progress();
  const rows = [];
  for (const hostile of HOSTILE_BODIES.filter(({ title }) => title.includes(values.only ?? ''))) {
    progress.show(hostile.title);
    rows.push(await withServices((services) => measure(services, { ...hostile, ...hostile.make() }, Number(values.at))));
  }
  progress.clear();
  console.table(Object.fromEntries(rows.map(({ title, columns }) => [title, columns])));
  console.log(`goals: a pause of at most ${MOST_PAUSE_MS} ms for one request, and /health/live within ${MOST_LATENCY_MS} ms beside sixty`);
  return rows.every(({ ok }) => ok);
}

async function measure(services, hostile, atOnce) {
  const meter = pathToFileURL(resolve('bench/pauses/event-loop-meter.mjs')).href;
  const file = join(services.directory, 'pauses');
  const service = await services.start({ NODE_OPTIONS: `--import ${meter}`, PAUSES_FILE: file, LOG_LEVEL: 'fatal' });
  await send(service, { ...hostile, body: '{}', headers: { 'Content-Type': 'application/json' }, keyed: false, chunkBytes: undefined }, 'warm');
  await takePause(service, file);
  const status = await send(service, hostile, 'one');
  const pause = await takePause(service, file);

  const memory = new MemoryMeter(service.child.pid);
  await memory.begin();
  const began = performance.now();
  const live = await LiveProbe.start(service.url);
  const statuses = new Set([status, ...(await Promise.all(Array.from({ length: atOnce }, (_, number) => send(service, hostile, `many-${number}`))))]);
  const latency = await live.end();
  const seconds = (performance.now() - began) / 1000;
  const { growth } = await memory.read();
  const pauseOfMany = await takePause(service, file);
  const ok = pause <= MOST_PAUSE_MS && latency <= MOST_LATENCY_MS && statuses.size === 1 && statuses.has(hostile.status);
  const ms = (value) => `${Math.round(value)} ms`;
  return {
    title: hostile.title,
    ok,
    columns: {
      'pause, one': ms(pause),
      [`pause, ${atOnce}`]: ms(pauseOfMany),
      'live, worst': ms(latency),
      memory: `+${Math.round(growth / MIB)} MiB`,
      time: `${seconds.toFixed(1)} s`,
      status: [...statuses].join(' '),
      '': ok ? 'ok' : 'MISSED',
    },
  };
}

const takePause = async (service, file) => Number(await askBySignal(service, file));

const connections = new Agent({ keepAlive: false, maxSockets: Infinity });

function send(service, hostile, key) {
  return hostile.chunkBytes ? sendChunks(service, hostile) : sendWhole(service, hostile, key);
}

/** Sends a body in chunks that are framed here, because Node would send each chunk alone. Resolves to the status. */
async function sendChunks(service, { headers, body, chunkBytes }) {
  const { hostname, port } = new URL(service.url);
  const lines = Object.entries({ Host: hostname, Connection: 'close', 'Transfer-Encoding': 'chunked', ...headers }).map((pair) => pair.join(': '));
  let text = `${[`POST ${UPLOAD} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`;
  for (let at = 0; at < body.length; at += chunkBytes) {
    const chunk = body.subarray(at, at + chunkBytes).toString('latin1');
    text += `${chunk.length.toString(16)}\r\n${chunk}\r\n`;
  }
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => undefined);
  socket.write(`${text}0\r\n\r\n`, 'latin1');
  const [answer] = await once(socket, 'data').catch(() => ['']);
  socket.destroy();
  return Number(String(answer).split(' ')[1] ?? 0);
}

async function sendWhole(service, { headers, body, keyed }, key) {
  const sent = request(service.url + UPLOAD, {
    method: 'POST',
    agent: connections,
    headers: { ...headers, 'Content-Length': Buffer.byteLength(body), ...(keyed ? { 'Idempotency-Key': key } : {}) },
  });
  sent.end(body);
  // The service may answer early and close the connection while the body is still sent. The answer may then be lost,
  // which counts as status 0.
  const [answer] = await once(sent, 'response').catch(() => [{ statusCode: 0, resume: () => undefined }]);
  sent.on('error', () => undefined);
  answer.resume();
  return answer.statusCode;
}
