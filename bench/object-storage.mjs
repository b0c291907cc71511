import { interruptible } from './support/interruption.mjs';
import { parseOptions, runContests, printConditions } from './support/contests.mjs';
import { CONTESTS } from './object-storage/contests.mjs';
import { LATENCY_MS } from './object-storage/distant-store.mjs';
import { ROWS } from './object-storage/rows.mjs';
import { takeTurn } from './object-storage/turn.mjs';

/**
 * Compares how fast the service and simpler programs store uploads in an S3 bucket, with a latency added to each
 * request.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function objectStorage(parameters) {
  const options = parseOptions(parameters, ROWS);
  if (!options) return false;
  const { rounds, seconds, rows } = options;
  return interruptible((signal) => {
    printConditions(options, `store:   versitygw, ${LATENCY_MS} ms away, over TLS`);
    return runContests(rows, CONTESTS, { rounds, takeTurn: (entrant) => takeTurn(entrant, { signal, seconds }) });
  });
}
