import { missingBucket } from '../test/crash/bucket.mjs';
import { missingNginx } from '../test/replicas/nginx.mjs';
import { ROWS } from './replicas/rows.mjs';
import { takeTurn } from './replicas/turn.mjs';
import { parseOptions, printConditions } from './support/contests.mjs';
import { interruptible } from './support/interruption.mjs';
import { Progress } from './support/progress.mjs';
import { median } from './support/table.mjs';

const SEGMENTS_AT_ONCE = 4;
const COLUMNS = ['PUT', 'GET', 'LIST', 'DELETE', 'service', 'nginx', 'store', 'client'];

/**
 * Measures uploads through nginx to 1, 2 and 4 replicas on one bucket. Prints for each row the medians over the rounds:
 * uploads in a second, requests to the bucket for each upload, and processor time for 1,000 uploads. For the rows with
 * delayed requests to the store also prints PUTs in a second, beside the most that the model of docs/sizing-replicas.md
 * allows.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether each upload was answered with 200.
 */
export default async function replicas(parameters) {
  const options = parseOptions(parameters, ROWS);
  const missing = missingBucket() ?? missingNginx();
  if (missing) console.error(missing);
  if (!options || missing) return false;
  const { rounds, seconds, rows } = options;
  return interruptible(async (signal) => {
    printConditions(options, 'store:   versitygw on this machine; nginx, and the client too');
    const progress = new Progress();
    const outcomes = new Map(rows.map((row) => [row, []]));
    for (let round = 1; round <= rounds; round++) {
      for (const row of rows) {
        signal.throwIfAborted();
        progress.show(`round ${round} of ${rounds}, ${row.name}`);
        outcomes.get(row).push(await takeTurn(row, { signal, seconds }));
      }
    }
    progress.clear();
    console.log('requests to the bucket for each upload; processor seconds for 1,000 uploads\n');
    console.log(`| work | replicas | uploads/s | ${COLUMNS.join(' | ')} |\n|---|${'---|'.repeat(2 + COLUMNS.length)}`);
    for (const [{ work, replicas: count }, each] of outcomes) console.log(`| ${work} | ${count} | ${cells(each).join(' | ')} |`);
    printModel([...outcomes].filter(([{ delayMs }]) => delayMs > 0));
    const others = [...outcomes].flatMap(([{ name }, each]) => each.flatMap((outcome) => Object.entries(outcome.others).map(([status, count]) => `${name}: ${count} x ${status}`)));
    for (const other of others) console.log(other);
    return others.length === 0;
  });
}

function cells(outcomes) {
  const values = (name) => outcomes.map(({ figures }) => figures[name]);
  return [spread(values('rate')), ...COLUMNS.map((name) => median(values(name)).toFixed(2))];
}

function printModel(distant) {
  if (distant.length === 0) return;
  console.log('\nPUTs in a second\n\n| delay | replicas | by the model, at most | measured |\n|---|---|---|---|');
  for (const [{ delayMs, replicas: count }, each] of distant) {
    const measured = spread(each.map(({ figures: { rate, PUT } }) => rate * PUT));
    console.log(`| ${delayMs} ms | ${count} | ${(count * SEGMENTS_AT_ONCE * 1000) / delayMs} | ${measured} |`);
  }
}

function spread(values) {
  const rounded = values.map(Math.round).sort((a, b) => a - b);
  return `${Math.round(median(rounded))} (${rounded[0]}-${rounded.at(-1)})`;
}
