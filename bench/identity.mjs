import { parseOptions, runContests, printConditions } from './support/contests.mjs';
import { interruptible } from './support/interruption.mjs';
import { CONTESTS } from './identity/contests.mjs';
import { ROWS } from './identity/rows.mjs';
import { Stage } from './identity/stage.mjs';

/**
 * Compares the time of the service, which keeps roles and users in Keycloak, with the time of the fewest direct calls
 * to Keycloak's Admin API that do the same work.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function identity(parameters) {
  const options = parseOptions(parameters, ROWS);
  if (!options) return false;
  const { rounds, seconds, rows } = options;
  return interruptible(async (signal) => {
    printConditions(options, 'provider: Keycloak, which keeps everything in memory');
    const stage = await Stage.set();
    try {
      const context = { stage, seconds, signal };
      return await runContests(rows, CONTESTS, {
        rounds,
        prepare: (entrants, show) => stage.prepare(entrants, { ...context, show }),
        takeTurn: ({ load }) => load(context),
      });
    } finally {
      await stage.clear();
    }
  });
}
