import { MemoryMeter } from '../support/memory-meter.mjs';
import { Progress } from '../support/progress.mjs';
import { json } from '../uploads/loads.mjs';
import { fillStore } from './filled-store.mjs';

const MIB = 1024 * 1024;
const CUSTOMER = 'leaving';

/** The removal of a customer with most of the uploads of a store, while others upload. */
export async function measureRemoval(services, { uploads, days }) {
  const progress = new Progress();
  await fillStore(services.data, { uploads: uploads + uploads / 10, days, customerOf: (index) => (index % 11 === 0 ? 'staying' : CUSTOMER) });
  const service = await services.start();
  const headers = { Authorization: `Bearer ${await service.token()}` };
  const { signal } = new AbortController();
  const alone = await json(32)(service, 4, signal);
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  progress.show('removing');
  const began = performance.now();
  const removing = fetch(`${service.url}/uploads?customer_id=${CUSTOMER}`, { method: 'DELETE', headers }).then(async (answer) => {
    const { deleted } = await answer.json();
    return { deleted, seconds: (performance.now() - began) / 1000 };
  });
  const beside = await json(32)(service, 4, signal);
  const { deleted, seconds } = await removing;
  progress.clear();
  const { growth } = await meter.read();
  const failed = Object.keys(beside.others).length;
  const figure = `${deleted} uploads in ${seconds.toFixed(1)} s`;
  const rates = `${Math.round(beside.figures.rate)}/s, alone ${Math.round(alone.figures.rate)}/s, p99 ${beside.figures.p99.toFixed(0)} ms, ${failed} failed`;
  return [
    { title: 'remove a customer', figure, goal: 'all', ok: deleted > uploads * 0.99 },
    { title: 'growth of memory meanwhile', figure: `${Math.round(growth / MIB)} MiB`, goal: '< 200 MiB', ok: growth < 200 * MIB },
    { title: 'small uploads meanwhile', figure: rates, goal: 'none failed', ok: failed === 0 },
  ];
}
