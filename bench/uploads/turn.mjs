import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { Services } from '../support/service.mjs';
import { settle } from './disk.mjs';

/**
 * One turn of an entrant: a new data directory, a process that stores uploads in this directory, and one measurement.
 *
 * @param {object} entrant see contests.mjs
 * @param {{ disk: object, signal: AbortSignal, seconds: number, show: (text: string) => void }} context
 * @returns {Promise<import('../support/contests.mjs').Outcome>}
 */
export async function takeTurn({ competitor, load, prepare, keep }, context) {
  const { disk, signal, seconds } = context;
  signal.throwIfAborted();
  const services = new Services(await mkdtemp(join(disk.path, 'turn-')), competitor.program);
  try {
    await prepare?.(services, context);
    await settle(disk);
    const began = performance.now();
    const service = await services.start({ NODE_ENV: 'production', ...competitor.variables });
    const boot = performance.now() - began;
    const { figures, others } = await Promise.race([load(service, seconds, signal), service.death(competitor.title)]);
    await service.end('SIGTERM');
    await keep?.(services, context);
    return { figures: { boot, ...figures }, others };
  } finally {
    await services.end();
  }
}
