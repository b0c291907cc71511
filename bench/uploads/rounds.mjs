import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { Services } from '../support/service.mjs';
import { settle } from './disk.mjs';

/**
 * Measures the entrants of a contest in alternating rounds, so that what changes on the machine meets all alike.
 *
 * @param {Record<string, object>} entrants see contests.mjs
 * @param {{ disk: object, signal: AbortSignal, rounds: number, seconds: number, show: (text: string) => void }} context
 * @returns {Promise<Record<string, import('./loads.mjs').Outcome[]>>} an outcome a round, by entrant.
 */
export async function runRounds(entrants, context) {
  const outcomes = Object.fromEntries(Object.keys(entrants).map((name) => [name, []]));
  for (let round = 1; round <= context.rounds; round++) {
    for (const [name, entrant] of Object.entries(entrants)) {
      context.show(`round ${round} of ${context.rounds}, ${name}`);
      outcomes[name].push(await takeTurn(entrant, context));
    }
  }
  return outcomes;
}

/** One process, one fresh directory, one measurement. */
async function takeTurn({ competitor, load, prepare, keep }, context) {
  const { disk, signal, seconds } = context;
  signal.throwIfAborted();
  const services = new Services(await mkdtemp(join(disk.path, 'turn-')), competitor.program);
  try {
    await prepare?.(services, context);
    await settle(disk);
    const began = performance.now();
    const service = await services.start({ NODE_ENV: 'production', ...competitor.variables });
    const boot = performance.now() - began;
    const { figures, others } = await Promise.race([load(service, seconds, signal), deathOf(service, competitor)]);
    await service.end('SIGTERM');
    await keep?.(services, context);
    return { figures: { boot, ...figures }, others };
  } finally {
    await services.end();
  }
}

async function deathOf(service, { title }) {
  await service.exited;
  throw new Error(`${title} ended by itself: ${service.output}`);
}
