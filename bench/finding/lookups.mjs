import { v7 as uuidV7 } from 'uuid';
import { MemoryMeter } from '../support/memory-meter.mjs';
import { figuresOf } from '../support/latencies.mjs';
import { Progress } from '../support/progress.mjs';
import { fillBucket } from './bucket-store.mjs';
import { CUSTOMERS, DAY_MS, fillStore } from './filled-store.mjs';

const MIB = 1024 * 1024;

const pick = (list) => list[Math.floor(Math.random() * list.length)];

/**
 * Measures how long it takes to find and list uploads, and how much the service's memory grows meanwhile: more than the
 * first requests of each kind have made it grow. Sends one request after the other.
 */
export async function measureLookups(services, shape) {
  const filled = await fillStore(services.data, shape);
  return measure(await services.start(), filled, shape);
}

/**
 * The same in a bucket on the same machine. There, the requests one after the other count (`bucket-uploads.spec.ts`), so
 * the times have no goal.
 */
export async function measureLookupsInBucket(services, shape) {
  const { variables, ...filled } = await fillBucket(services, shape);
  const results = await measure(await services.start(variables), filled, shape);
  return results.map(({ title, figure, goal, ok }) => ({ title: `in a bucket: ${title}`, figure, ...(goal.startsWith('p50') ? { goal: '', ok: true } : { goal, ok }) }));
}

async function measure(service, { large, others, day }, { requests }) {
  const headers = { Authorization: `Bearer ${await service.token()}` };
  const begin = Date.parse(day);
  const noon = new Date(begin + DAY_MS / 2).toISOString();
  const few = Math.ceil(requests / 10);
  const ofCustomer = () => `/uploads?customer_id=c${Math.floor(Math.random() * CUSTOMERS)}`;
  const rows = [
    { title: 'find an upload of the large day', target: () => `/uploads/${pick(large)}`, most: 5 },
    { title: 'find an upload of any other day', target: () => `/uploads/${pick(others)}`, most: 5 },
    { title: 'first page, 100 uploads of all customers', target: () => '/uploads', length: 100, most: 10 },
    { title: 'a page in the middle of the large day', target: () => `/uploads?to=${noon}`, length: 100, most: 10 },
    { title: 'first page, 10 uploads of one customer of 1,000', target: () => `${ofCustomer()}&limit=10`, length: 10, most: 10 },
    { title: 'first page, 100 uploads of one customer of 1,000', target: ofCustomer, length: 100, most: 10, count: few },
    { title: 'find an id that nobody has', target: () => `/uploads/${uuidV7({ msecs: begin + Math.random() * DAY_MS })}`, status: 404, most: 5, count: few },
  ];
  const ask = async ({ title, target, status = 200, length }) => {
    const answer = await fetch(service.url + target(), { headers });
    const body = await answer.json();
    if (answer.status !== status || body.uploads?.length !== length) throw new Error(`${title}: ${answer.status}, ${body.uploads?.length} uploads`);
  };
  for (const row of rows) await timed(`warming up: ${row.title}`, few, () => ask(row));
  const results = [];
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  for (const row of rows) {
    const { title, most, count = requests } = row;
    const { median, p99 } = await timed(title, count, () => ask(row));
    results.push({ title, figure: `p50 ${median.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`, goal: `p50 <= ${most} ms`, ok: median <= most });
  }
  const { growth } = await meter.read();
  return [...results, { title: 'growth of memory, after the first requests', figure: `${Math.round(growth / MIB)} MiB`, goal: '< 100 MiB', ok: growth < 100 * MIB }];
}

async function timed(title, count, work) {
  const progress = new Progress();
  const times = [];
  const began = performance.now();
  for (let index = 0; index < count; index++) {
    progress.show(`${title}: ${index} of ${count}`);
    const start = performance.now();
    await work();
    times.push(performance.now() - start);
  }
  progress.clear();
  return figuresOf(times, (performance.now() - began) / 1000);
}
