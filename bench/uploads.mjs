import { tmpdir } from 'node:os';
import { parseOptions, runContests, tellConditions } from './support/contests.mjs';
import { CONTESTS } from './uploads/contests.mjs';
import { withDisk } from './uploads/disk.mjs';
import { ROWS } from './uploads/rows.mjs';
import { takeTurn } from './uploads/turn.mjs';

/**
 * Compares how fast the service and simpler programs store uploads, on one disk, with the same clients, in alternating
 * rounds.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function uploads(parameters) {
  const options = parseOptions(parameters, ROWS, { directory: { type: 'string', default: tmpdir() } });
  if (!options) return false;
  const { rounds, seconds, rows, values } = options;
  return withDisk(values.directory, (disk, signal) => {
    tellConditions(options, `disk:    ${disk.title}`);
    return runContests(rows, CONTESTS, { rounds, takeTurn: (entrant, show) => takeTurn(entrant, { disk, signal, seconds, show }) });
  });
}
