import { tmpdir } from 'node:os';
import { parseOptions, runContests, printConditions } from './support/contests.mjs';
import { CONTESTS } from './uploads/contests.mjs';
import { withDisk } from './uploads/disk.mjs';
import { EARLIER_BUILD_ROWS, earlierBuildContests } from './uploads/earlier-build.mjs';
import { ROWS } from './uploads/rows.mjs';
import { takeTurn } from './uploads/turn.mjs';

/**
 * Compares how fast the service and simpler programs store uploads, on one disk, with the same clients, in alternating
 * rounds. With `--earlier`, compares the service with an earlier build of it instead.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function uploads(parameters) {
  const isEarlier = parameters.some((parameter) => parameter.startsWith('--earlier'));
  const options = parseOptions(parameters, isEarlier ? EARLIER_BUILD_ROWS : ROWS, { directory: { type: 'string', default: tmpdir() }, earlier: { type: 'string' } });
  if (!options) return false;
  const { rounds, seconds, rows, values } = options;
  const contests = values.earlier === undefined ? CONTESTS : earlierBuildContests(values.earlier);
  return withDisk(values.directory, (disk, signal) => {
    printConditions(options, `disk:    ${disk.title}`);
    return runContests(rows, contests, { rounds, takeTurn: (entrant, show) => takeTurn(entrant, { disk, signal, seconds, show }) });
  });
}
