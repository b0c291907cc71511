import { availableParallelism, cpus, loadavg, release, type } from 'node:os';
import { parseArgs } from 'node:util';
import { Progress } from './progress.mjs';
import { judge, summary, table } from './table.mjs';

/**
 * @typedef {{ figures: Record<string, number>, others: Record<string, number> }} Outcome figures: the measured values
 *   by name. others: the number of answers other than 200, by status.
 */

/**
 * Parses the command-line options that every bench with rows has (`--rounds`, `--seconds`, `--only`), and `others`, the
 * options that only this bench has.
 *
 * @returns {{ rounds: number, seconds: number, rows: object[], values: object } | undefined} undefined when the value
 *   of an option is wrong, which is then reported on standard error.
 */
export function parseOptions(parameters, rows, others = {}) {
  const text = (value) => ({ type: 'string', default: value });
  const options = { rounds: text('5'), seconds: text('4'), only: { type: 'string' }, ...others };
  const { values } = parseArgs({ args: parameters, options });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  const known = rows.map(({ name }) => name);
  const names = values.only?.split(',') ?? known;
  const problem = problemWith(names, known, rounds, seconds);
  if (problem) {
    console.error(problem);
    return undefined;
  }
  return { rounds, seconds, rows: rows.filter(({ name }) => names.includes(name)), values };
}

function problemWith(names, known, rounds, seconds) {
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) return `--only: there is no row ${unknown.join(', ')}; there are ${known.join(', ')}`;
  return Number.isInteger(rounds) && rounds > 0 && seconds >= 1 ? undefined : '--rounds, --seconds: must be numbers of at least 1';
}

export function printConditions({ rounds, seconds }, ...lines) {
  const load = loadavg()[0].toFixed(1);
  console.log(`machine: ${availableParallelism()} cores of ${cpus()[0]?.model.trim()}, load ${load} before the start`);
  console.log(`         ${type()} ${release()}, Node.js ${process.versions.node}`);
  for (const line of lines) console.log(line);
  console.log(`rounds:  ${rounds}, of ${seconds} s each for small requests\n`);
}

/**
 * Runs each contest that the rows need, with the entrants that they need, for some rounds. Prints a table of the rows.
 *
 * @param {object[]} rows
 * @param {Record<string, Record<string, object>>} contests the entrants of each contest, by the name of the contest and
 *   by the name of the entrant
 * @param {{
 *   rounds: number,
 *   prepare?: (entrants: Record<string, object>, show: (text: string) => void) => Promise<void>,
 *   takeTurn: (entrant: object, show: (text: string) => void) => Promise<Outcome>,
 * }} context `prepare` is called before the first round of each contest. `takeTurn` measures one entrant once.
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export async function runContests(rows, contests, { rounds, prepare, takeTurn }) {
  const progress = new Progress();
  const judged = new Map();
  const names = [...new Set(rows.map((row) => row.contest))];
  for (const [index, contest] of names.entries()) {
    const own = rows.filter((row) => row.contest === contest);
    const needed = new Set(own.flatMap(({ of, to }) => [of[0], ...(to ? [to[0]] : [])]));
    const entrants = Object.fromEntries(Object.entries(contests[contest]).filter(([name]) => needed.has(name)));
    const show = (text) => progress.show(`${contest} (${index + 1} of ${names.length}): ${text}`);
    await prepare?.(entrants, show);
    const outcomes = await runRounds(entrants, { rounds, takeTurn, show });
    progress.clear();
    for (const [name, each] of Object.entries(outcomes)) console.log(`${contest}, ${name}: ${summary(each)}`);
    for (const row of own) judged.set(row, judge(row, outcomes, entrants));
  }
  const results = rows.map((row) => judged.get(row));
  console.log(`\n${table(results.map(({ cells }) => cells))}`);
  return results.every(({ ok }) => ok);
}

/** Runs the entrants alternately in each round, so that changes on the machine affect all of them alike. */
async function runRounds(entrants, { rounds, takeTurn, show }) {
  const outcomes = Object.fromEntries(Object.keys(entrants).map((name) => [name, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const [name, entrant] of Object.entries(entrants)) {
      show(`round ${round} of ${rounds}, ${name}`);
      outcomes[name].push(await takeTurn(entrant, show));
    }
  }
  return outcomes;
}
