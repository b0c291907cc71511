import { availableParallelism, cpus, loadavg, release, tmpdir, type } from 'node:os';
import { parseArgs } from 'node:util';
import { Progress } from './support/progress.mjs';
import { CONTESTS } from './uploads/contests.mjs';
import { withDisk } from './uploads/disk.mjs';
import { runRounds } from './uploads/rounds.mjs';
import { ROWS } from './uploads/rows.mjs';
import { judge, summary, table } from './uploads/table.mjs';

/**
 * Holds the service against others who do the same with less, on one disk and with one client, in alternating rounds.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default function uploads(parameters) {
  const { values } = parseArgs({
    args: parameters,
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '4' },
      only: { type: 'string' },
      directory: { type: 'string', default: tmpdir() },
    },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  const names = values.only?.split(',') ?? ROWS.map(({ name }) => name);
  const problem = problemWith(names, rounds, seconds);
  if (problem) {
    console.error(problem);
    return false;
  }
  return withDisk(values.directory, async (disk, signal) => {
    const load = loadavg()[0].toFixed(1);
    console.log(`machine: ${availableParallelism()} cores of ${cpus()[0]?.model.trim()}, load ${load} before the start`);
    console.log(`         ${type()} ${release()}, Node.js ${process.versions.node}`);
    console.log(`disk:    ${disk.title}`);
    console.log(`rounds:  ${rounds}, of ${seconds} s each for small requests\n`);
    const judged = await runAll(ROWS.filter(({ name }) => names.includes(name)), { disk, signal, rounds, seconds });
    console.log(`\n${table(judged.map(({ cells }) => cells))}`);
    return judged.every(({ ok }) => ok);
  });
}

function problemWith(names, rounds, seconds) {
  const known = ROWS.map(({ name }) => name);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) return `--only: there is no row ${unknown.join(', ')}; there are ${known.join(', ')}`;
  return Number.isInteger(rounds) && rounds > 0 && seconds >= 1 ? undefined : '--rounds, --seconds: must be numbers from 1 on';
}

/** Runs each contest once, with those entrants that a row asks for. */
async function runAll(rows, context) {
  const progress = new Progress();
  const judged = new Map();
  const contests = [...new Set(rows.map((row) => row.contest))];
  for (const [index, contest] of contests.entries()) {
    const own = rows.filter((row) => row.contest === contest);
    const needed = new Set(own.flatMap(({ of, to }) => [of[0], ...(to ? [to[0]] : [])]));
    const entrants = Object.fromEntries(Object.entries(CONTESTS[contest]).filter(([name]) => needed.has(name)));
    const show = (text) => progress.show(`${contest} (${index + 1} of ${contests.length}): ${text}`);
    const outcomes = await runRounds(entrants, { ...context, show });
    progress.clear();
    for (const [name, each] of Object.entries(outcomes)) console.log(`${contest}, ${name}: ${summary(each)}`);
    for (const row of own) judged.set(row, judge(row, outcomes, entrants));
  }
  return rows.map((row) => judged.get(row));
}
