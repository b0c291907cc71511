// Crashes the built service in every way that it must survive. Compares its store after each boot with the acknowledged
// uploads.
import { parseArgs } from 'node:util';
import { runCommand } from '../../bench/support/command.mjs';
import { Progress } from '../../bench/support/progress.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { Random } from '../../dist/testing/random.js';
import bootKills from './boot-kills.mjs';
import { missingBucket } from './bucket.mjs';
import diskFull from './disk-full.mjs';
import forgetfulDisk from './forgetful-disk.mjs';
import ioErrors from './io-errors.mjs';
import kills from './kills.mjs';
import { LoopFileSystem } from './loop-file-system.mjs';
import objectStorage from './object-storage.mjs';
import powerCuts from './power-cuts.mjs';
import { removals, removalsInBucket } from './removals.mjs';
import selfTest from './self-test.mjs';

/** The parts of the crash test. `share`: of all uploads; 0 for the parts that make as many as they need. */
const PARTS = {
  kills: { run: kills, share: 0.3 },
  removals: { run: removals, share: 0.1 },
  'power-cuts': { run: powerCuts, share: 0.35, needsFileSystem: true },
  'forgetful-disk': { run: forgetfulDisk, share: 0 },
  'disk-full': { run: diskFull, share: 0 },
  'io-errors': { run: ioErrors, share: 0.15 },
  'boot-kills': { run: bootKills, share: 0.1 },
  'object-storage': { run: objectStorage, share: 0.5, needsBucket: true },
  'removals-in-bucket': { run: removalsInBucket, share: 0.1, needsBucket: true },
};
const SELF_TEST = 'self-test';
const HELP = `Usage: npm run test:crash -- [options]

Kills the built service, cuts its power and lets its disk fail, and compares the store with what it acknowledged.

  --uploads <n>   uploads to the local disk, divided among the parts (10000)
  --kills <n>     number of kills (20)
  --cuts <n>      number of power cuts (15)
  --seed <n>      repeats the choices of a run, but not the timing of processes
  --only <part>   ${[...Object.keys(PARTS), SELF_TEST].join(', ')}

Example: npm run test:crash -- --only=kills --uploads=2000
`;
const MOST_SHOWN = 20;
const COUNTS = ['acknowledged', 'refused', 'lost', 'doubled', 'half shown', 'wrong answers'];

const row = (title, runs, counts) =>
  console.log([title.padEnd(36), runs.padEnd(11), ...COUNTS.map((name, at) => String(counts[at]).padStart(name.length))].join('  '));

const findingsOf = ({ lost, doubled, halfShown, wrong }) => [lost, doubled, halfShown, wrong];
const countsOf = (ledger) => [ledger.acknowledged, ledger.refused, ...findingsOf(ledger).map(({ size }) => size)];

/**
 * Runs all parts of the crash test, or only one, and prints a row with the results of each.
 *
 * @returns {Promise<boolean>} whether no upload was lost, doubled, half shown, answered wrong, never delivered or
 *   brought back, and the self-test passed.
 */
async function crash({ uploads, kills, cuts, seed, only }) {
  console.log(`seed ${seed}`);
  const random = new Random(seed);
  const progress = new Progress();
  const noFileSystem = await withServices((services) => LoopFileSystem.missing(services));
  if (noFileSystem) console.log(`No file system for power cuts (${noFileSystem}): they are left out, and a full disk is simulated by ENOSPC.`);
  const noBucket = missingBucket();
  if (noBucket) console.log(`No object storage: ${noBucket}.`);
  const totals = COUNTS.map(() => 0);
  const findings = [];
  row('', '', COUNTS);
  for (const [name, { run, share, needsFileSystem, needsBucket }] of Object.entries(PARTS)) {
    if ((only && name !== only) || (needsFileSystem && noFileSystem) || (needsBucket && noBucket)) continue;
    const { title, runs, ledger, facts = {}, findings: others = [] } = await run({ uploads: uploads * share, kills, cuts, random, progress, noFileSystem });
    progress.clear();
    row(title, runs, countsOf(ledger));
    if (Object.keys(facts).length > 0) console.log(`  ${Object.entries(facts).map(([name, count]) => `${name} ${count}`).join(', ')}`);
    for (const [at, count] of countsOf(ledger).entries()) totals[at] += count;
    findings.push(...findingsOf(ledger).flatMap((found) => [...found]), ...others);
  }
  row('total', '', totals);
  for (const finding of findings.slice(0, MOST_SHOWN)) console.log(`  ${finding}`);
  const canFail = (only && only !== SELF_TEST) || (await selfTest({ random, progress, noFileSystem, noBucket }));
  return findings.length === 0 && canFail;
}

async function main() {
  const { values } = parseArgs({
    options: {
      uploads: { type: 'string', default: '10000' },
      kills: { type: 'string', default: '20' },
      cuts: { type: 'string', default: '15' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
      only: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const names = [...Object.keys(PARTS), SELF_TEST];
  const numbers = ['uploads', 'kills', 'cuts', 'seed'].map((name) => [name, Number(values[name])]);
  const [wrong] = numbers.find(([, number]) => !Number.isSafeInteger(number) || number < 0) ?? [];
  if (wrong || (values.only && !names.includes(values.only))) {
    console.error(wrong ? `--${wrong} must be a whole number` : `--only must be one of ${names.join(', ')}`);
    return 1;
  }
  return (await crash({ ...Object.fromEntries(numbers), only: values.only })) ? 0 : 1;
}

await runCommand(main);
