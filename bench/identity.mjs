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
  const options = parseOptions(parameters, ROWS, { connections: { type: 'string', default: '8' }, replicas: { type: 'string', default: '1' } });
  if (!options) return false;
  const { rounds, seconds, rows, values } = options;
  const [connections, replicas] = [Number(values.connections), Number(values.replicas)];
  if (![connections, replicas].every((count) => Number.isInteger(count) && count > 0)) {
    console.error('--connections, --replicas: must be whole numbers of at least 1');
    return false;
  }
  return interruptible(async (signal) => {
    printConditions(options, 'provider: Keycloak, which keeps everything in memory', `commands: over ${connections} connections, to ${replicas} processes of the service`);
    const stage = await Stage.set(replicas);
    try {
      const context = { stage, seconds, connections, signal };
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
