import { MemoryMeter } from '../support/memory-meter.mjs';
import { Progress } from '../support/progress.mjs';
import { json } from '../uploads/loads.mjs';
import { fillStore } from './filled-store.mjs';
import { median } from '../support/table.mjs';

const MIB = 1024 * 1024;
const CUSTOMER = 'leaving';
const CONNECTIONS = 32;
const SECONDS = 4;

/**
 * Measures one call that removes all uploads of a customer: about ten of every eleven in the store. Other clients
 * upload small files from the beginning of the removal to its end.
 */
export async function measureRemoval(services, { uploads, days }) {
  const progress = new Progress();
  let leaving = 0;
  const customerOf = (index) => {
    if (index % 11 === 0) return 'staying';
    leaving += 1;
    return CUSTOMER;
  };
  await fillStore(services.data, { uploads: uploads + uploads / 10, days, customerOf });
  const service = await services.start();
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
    { title: 'remove a customer', figure, goal: `all ${leaving}`, ok: deleted === leaving },
    { title: 'growth of memory meanwhile', figure: `${Math.round(growth / MIB)} MiB, to ${Math.round(peak / MIB)} MiB`, goal: '< 200 MiB', ok: growth < 200 * MIB },
    { title: 'small uploads meanwhile', figure: besideFigure, goal: 'none failed', ok: failed === 0 },
  ];
}
