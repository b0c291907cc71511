import { interruptible } from './support/interruption.mjs';
import { parseOptions, runContests, tellConditions } from './support/contests.mjs';
import { CONTESTS } from './object-storage/contests.mjs';
import { LATENCY_MS } from './object-storage/distant-store.mjs';
import { ROWS } from './object-storage/rows.mjs';
import { takeTurn } from './object-storage/turn.mjs';

/**
 * Compares the service, which stores uploads in an S3 bucket with latency, with simpler programs that do the same.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function objectStorage(parameters) {
  const options = parseOptions(parameters, ROWS);
  if (!options) return false;
  const { rounds, seconds, rows } = options;
  return interruptible((signal) => {
    tellConditions(options, `store:   versitygw, ${LATENCY_MS} ms away`);
    return runContests(rows, CONTESTS, { rounds, takeTurn: (entrant) => takeTurn(entrant, { signal, seconds }) });
  });
}
