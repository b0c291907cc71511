import { Agent, get } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { MemoryMeter } from '../support/memory-meter.mjs';
import { Progress } from '../support/progress.mjs';
import { json } from '../uploads/loads.mjs';
import { fillBucket, startBucket } from './bucket-store.mjs';
import { uploadFile } from './content.mjs';
import { fillStore } from './filled-store.mjs';
import { median } from '../support/table.mjs';

const MIB = 1024 * 1024;
const ROUNDS = 6;
/** Two, because a thousand readers of a bucket take long to begin. */
const ROUNDS_IN_BUCKET = 2;
const SECONDS = 4;
const CONNECTIONS = 32;
const READERS = 1_000;
const READER_BYTES = 16 * 1024;
const LOOKUPS_PER_SECOND = 50;

/**
 * Compares the rate of small uploads while another client finds and lists uploads with the rate while this client sends
 * the same requests to a bare server, because the clients and the service share the processor. The two rates are
 * measured in turns.
 */
export async function measureUploadsBesideLookups(services, shape) {
  const filled = await fillStore(services.data, shape);
  return compareBesideLookups(services, await services.start(), filled, '');
}

/** The same in a bucket on the same machine, whose server shares the processor, too. */
export async function measureUploadsBesideLookupsInBucket(services, shape) {
  const { variables, ...filled } = await fillBucket(services, shape);
  return compareBesideLookups(services, await services.start(variables), filled, ' in a bucket');
}

async function compareBesideLookups(services, service, { large }, where) {
  services.program = fileURLToPath(new URL('bare-answers.mjs', import.meta.url));
  const bare = await services.start();
  const headers = { Authorization: `Bearer ${await service.token()}` };
  // The requests aren't sent by `fetch`, which takes a millisecond of CPU for each: service and clients share cores.
  const agent = new Agent({ keepAlive: true });
  const look = (url, index) =>
    new Promise((done, failed) => {
      const target = index % 2 ? '/uploads' : `/uploads/${large[index % large.length]}`;
      get(url + target, { agent, headers }, (answer) => {
        if (answer.statusCode !== 200) failed(new Error(`A lookup was answered with ${answer.statusCode}.`));
        answer.resume().once('end', done).once('error', failed);
      }).once('error', failed);
    });
  const whileLooking = (url) => async (work) => {
    const ending = new AbortController();
    const looking = (async () => {
      for (let index = 0; !ending.signal.aborted; index++) await Promise.all([look(url, index), delay(1000 / LOOKUPS_PER_SECOND)]);
    })();
    try {
      return await work();
    } finally {
      ending.abort();
      await looking;
    }
  };
  const { ratio, text } = await compareRates(service, `beside ${LOOKUPS_PER_SECOND} lookups/s`, whileLooking(service.url), whileLooking(bare.url));
  agent.destroy();
  return [{ title: `small uploads${where} beside ${LOOKUPS_PER_SECOND} lookups/s, compared with the same requests to a bare server`, figure: text, goal: '>= 0.95', ok: ratio >= 0.95 }];
}

/** Compares small uploads while 1,000 clients read a file slowly with small uploads alone, in turns. */
export async function measureSlowReaders(services) {
  const service = await services.start();
  const { ratio, text, memory } = await compareBesideReaders(services, service, ROUNDS);
  return [
    { title: `small uploads beside ${READERS} slow readers`, figure: text, goal: '>= 0.95', ok: ratio >= 0.95 },
    { title: 'memory meanwhile, at its peak', ...memory },
  ];
}

/** Measures the memory of 1,000 clients that read a file of a bucket slowly. */
export async function measureSlowReadersOfBucket(services) {
  const service = await services.start(await startBucket(services));
  const { text, memory } = await compareBesideReaders(services, service, ROUNDS_IN_BUCKET);
  return [{ title: `memory beside ${READERS} slow readers of a bucket, at its peak`, ...memory, figure: `${memory.figure}; uploads ${text}` }];
}

async function compareBesideReaders(services, service, rounds) {
  const token = await service.token();
  const { id } = await uploadFile(services, service, 64);
  await json(CONNECTIONS)(service, SECONDS, new AbortController().signal);
  const meter = new MemoryMeter(service.child.pid);
  const peaks = { alone: [], reading: [] };
  const withPeak = async (all, work) => {
    await meter.begin();
    const result = await work();
    all.push((await meter.read()).peak);
    return result;
  };
  const whileReading = async (work) => {
    const readers = Array.from({ length: READERS }, () => slowReader(service, id, token));
    await Promise.all(readers.map(({ begun }) => begun));
    const result = await withPeak(peaks.reading, work);
    for (const { end } of readers) end();
    await delay(500);
    return result;
  };
  const rates = await compareRates(service, 'beside slow readers', whileReading, (work) => withPeak(peaks.alone, work), rounds);
  const [reading, alone] = [median(peaks.reading), median(peaks.alone)].map((bytes) => Math.round(bytes / MIB));
  return { ...rates, memory: { figure: `${reading} MiB, otherwise ${alone} MiB`, goal: '< 100 MiB more', ok: reading - alone < 100 } };
}

function slowReader({ port }, id, token) {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  socket.write(`GET /uploads/${id}/content HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  socket.pause();
  const timer = setInterval(() => socket.read(READER_BYTES), 1000);
  const begun = new Promise((done, failed) => socket.once('readable', done).once('close', () => failed(new Error('A reader was cut off.'))));
  begun.catch(() => undefined);
  const end = () => {
    clearInterval(timer);
    socket.destroy();
  };
  return { begun, end };
}

/**
 * Compares upload rates. `otherwise` and `during` run the given work, and may keep other clients busy meanwhile. They
 * take turns in going first, because what runs later is often faster.
 */
async function compareRates(service, title, during, otherwise = (work) => work(), rounds = ROUNDS) {
  const progress = new Progress();
  const load = json(CONNECTIONS);
  const rates = { otherwise: [], beside: [] };
  const { signal } = new AbortController();
  const rate = async () => {
    const { figures, others } = await load(service, SECONDS, signal);
    if (Object.keys(others).length > 0) throw new Error(`Uploads failed: ${JSON.stringify(others)}`);
    return figures.rate;
  };
  for (let round = 1; round <= rounds; round++) {
    progress.show(`uploads ${title}: round ${round} of ${rounds}`);
    const turns = [async () => rates.otherwise.push(await otherwise(rate)), async () => rates.beside.push(await during(rate))];
    for (const turn of round % 2 === 0 ? turns.reverse() : turns) await turn();
  }
  progress.clear();
  const ratios = rates.beside.map((each, round) => each / rates.otherwise[round]);
  const ratio = median(ratios);
  const text = `${Math.round(median(rates.beside))}/s, otherwise ${Math.round(median(rates.otherwise))}/s: ${ratio.toFixed(2)} (${Math.min(...ratios).toFixed(2)}-${Math.max(...ratios).toFixed(2)})`;
  return { ratio, text };
}
