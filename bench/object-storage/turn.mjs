import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Services } from '../support/service.mjs';
import { settle } from '../uploads/disk.mjs';
import { DistantStore } from './distant-store.mjs';

/**
 * One turn of an entrant: a new S3 store, a process that stores uploads in this store (if the entrant has a program),
 * and one measurement.
 *
 * @param {object} entrant see contests.mjs
 * @param {{ signal: AbortSignal, seconds: number }} context
 * @returns {Promise<import('../support/contests.mjs').Outcome>}
 */
export async function takeTurn({ competitor, load }, { signal, seconds }) {
  signal.throwIfAborted();
  const store = await DistantStore.start();
  try {
    await settle({ path: store.directory });
    if (!competitor.program) return await load(store, seconds, signal);
    return await measure(competitor, load, store, seconds, signal);
  } finally {
    await store.stop();
  }
}

async function measure({ title, program, variables }, load, store, seconds, signal) {
  const services = new Services(await mkdtemp(join(tmpdir(), 'load-data-bench-')), program);
  try {
    const service = await services.start({ NODE_ENV: 'production', ...store.variables, ...variables });
    const outcome = await Promise.race([load(service, seconds, signal), service.death(title)]);
    await service.end('SIGTERM');
    return outcome;
  } finally {
    await services.end();
  }
}
