import { MemoryMeter } from '../support/memory-meter.mjs';
import { Progress } from '../support/progress.mjs';
import { median } from '../support/table.mjs';
import { json } from '../uploads/loads.mjs';
import { fillBucket } from './bucket-store.mjs';
import { fillStore, LINES_PER_DAY } from './filled-store.mjs';

const MIB = 1024 * 1024;
const CUSTOMER = 'leaving';
const CONNECTIONS = 32;
const SECONDS = 4;

/**
 * Measures one call that removes all uploads of a customer from the local disk: about ten of every eleven in the store.
 * Other clients upload small files from the beginning of the removal to its end.
 */
export async function measureRemoval(services, shape) {
  await fillStore(services.data, withLeaving(shape));
  return measure(await services.start(), shape, 'remove a customer');
}

/** Like `measureRemoval`, in a bucket. */
export async function measureRemovalInBucket(services, shape) {
  return measure(await services.start((await fillBucket(services, withLeaving(shape))).variables), shape, 'remove a customer in a bucket');
}

/** A store whose large day has `uploads` uploads of the customer who leaves, and a tenth as many of another. */
const withLeaving = ({ uploads, days }) => ({ uploads: all(uploads), days, customerOf: (index) => (index % 11 === 0 ? 'staying' : CUSTOMER) });

async function measure(service, { uploads, days }, title) {
  const progress = new Progress();
  const leaving = countLeaving(all(uploads)) + (days - 1) * countLeaving(LINES_PER_DAY);
  const headers = { Authorization: `Bearer ${await service.token()}` };
  const { signal } = new AbortController();
  const upload = () => json(CONNECTIONS)(service, SECONDS, signal);
  const alone = await upload();
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  progress.show('removing');
  const began = performance.now();
  let isOver = false;
  const removing = fetch(`${service.url}/uploads?customer_id=${CUSTOMER}`, { method: 'DELETE', headers })
    .then(async (answer) => ({ ...(await answer.json()), seconds: (performance.now() - began) / 1000 }))
    .finally(() => (isOver = true));
  const beside = [];
  while (!isOver) beside.push(await upload());
  const { deleted, seconds } = await removing;
  progress.clear();
  const { peak, growth } = await meter.read();
  const rates = beside.map(({ figures }) => Math.round(figures.rate));
  const p99 = Math.max(...beside.map(({ figures }) => figures.p99));
  const failed = beside.flatMap(({ others }) => Object.values(others)).reduce((sum, count) => sum + count, 0);
  const figure = `${deleted} uploads in ${seconds.toFixed(1)} s`;
  const besideFigure = `${Math.round(median(rates))}/s (${Math.min(...rates)}-${Math.max(...rates)}), alone ${Math.round(alone.figures.rate)}/s, p99 ${p99.toFixed(0)} ms, ${failed} failed`;
  return [
    { title, figure, goal: `all ${leaving}`, ok: deleted === leaving },
    { title: `${title}: growth of memory`, figure: `${Math.round(growth / MIB)} MiB, to ${Math.round(peak / MIB)} MiB`, goal: '< 200 MiB', ok: growth < 200 * MIB },
    { title: `${title}: small uploads meanwhile`, figure: besideFigure, goal: 'none failed', ok: failed === 0 },
  ];
}

const all = (leaving) => leaving + Math.ceil(leaving / 10);

const countLeaving = (count) => count - Math.ceil(count / 11);
