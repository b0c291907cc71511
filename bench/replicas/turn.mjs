import { join } from 'node:path';
import { withBucket } from '../../test/crash/bucket.mjs';
import { startNginx } from '../../test/replicas/nginx.mjs';
import { LATENCY_PROXY } from '../object-storage/distant-store.mjs';
import { machineSeconds, processorSeconds } from '../support/processor-meter.mjs';
import { withServices } from '../support/service.mjs';
import { countRequests } from './bucket-requests.mjs';

const WARM_UP = 2;

/**
 * One measurement: new replicas behind nginx on a new bucket, after a warm-up.
 *
 * Figures: `rate` (uploads/s), requests to the bucket for each upload (`PUT`, `GET`, `LIST`, `DELETE`), and processor
 * time in seconds for 1,000 uploads, of all replicas (`service`), of `nginx`, of the `store`, and of everything else on
 * the machine (`client`).
 *
 * @param {{ replicas: number, delayMs: number, load: import('../uploads/loads.mjs').Load }} row `delayMs`: how much
 * later each request reaches the store; 0 for none.
 * @returns {Promise<import('../support/contests.mjs').Outcome>}
 */
export function takeTurn({ replicas: count, delayMs, load }, { signal, seconds }) {
  return withBucket(({ server, variables }) =>
    withServices(async (services) => {
      const delayed = delayMs > 0 && { S3_ENDPOINT: (await services.start({ TARGET: server.endpoint, LATENCY_MS: String(delayMs) }, LATENCY_PROXY)).url };
      const replicas = [];
      for (let number = 0; number < count; number++) {
        const own = { DATA_DIR: join(services.directory, `replica-${number}`), TRUST_PROXY: '1' };
        replicas.push(await services.start({ NODE_ENV: 'production', ...variables, ...delayed, ...own }));
      }
      const nginx = await startNginx(replicas.map(({ port }) => port));
      try {
        const target = { url: nginx.endpoint };
        const pids = { service: replicas.map(({ child }) => child.pid), nginx: [nginx.pid], store: [server.pid] };
        // The warm-up grows with the number of replicas, because Node compiles a replica's code after many requests.
        await load(target, WARM_UP * count * seconds, signal);
        const before = await used(replicas, pids);
        const { figures: { rate }, others } = await load(target, seconds, signal);
        const after = await used(replicas, pids);
        const spent = (name) => after[name] - before[name];
        const each = (name) => spent(name) / spent('uploads');
        const processors = Object.fromEntries(Object.keys(pids).map((name) => [name, 1000 * each(name)]));
        const client = 1000 * each('machine') - Object.values(processors).reduce((sum, time) => sum + time, 0);
        const requests = Object.fromEntries(['PUT', 'GET', 'LIST', 'DELETE'].map((kind) => [kind, each(kind)]));
        return { figures: { rate, ...requests, ...processors, client }, others };
      } finally {
        await nginx.stop();
      }
    }),
  );
}

async function used(replicas, pids) {
  const times = await Promise.all(Object.entries(pids).map(async ([name, ids]) => [name, await processorSeconds(ids)]));
  return { ...Object.fromEntries(times), machine: await machineSeconds(), ...(await countRequests(replicas)) };
}
