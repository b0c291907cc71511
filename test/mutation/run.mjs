// Changes the source in one place at a time (a mutant), and runs the specs that should notice the change. Prints the
// mutants that no test notices.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Progress } from '../../bench/support/progress.mjs';
import { allDone } from '../../dist/common/each-of.js';
import { Random } from '../../dist/testing/random.js';
import { mutantsOf } from './mutants.mjs';
import { TARGETS } from './targets.mjs';

const CONFIG = 'test/mutation/vitest.config.ts';
/** Mutants are tried two at a time, each in a copy of its own: half of the time of a try is spent in one thread. */
const COPIES = 2;
/** The specs of a mutant may take this many times as long as with the unchanged source, and 10 s more. */
const PATIENCE = 3;
const MOST_SHOWN_LENGTH = 100;
/** Mutants that don't change the program's behaviour, each with the reason. */
const EQUIVALENT = JSON.parse(readFileSync(new URL('equivalent.json', import.meta.url), 'utf8'));

const { values } = parseArgs({
  options: {
    mutants: { type: 'string', default: '240' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    only: { type: 'string', default: '' },
    help: { type: 'boolean', default: false },
  },
});

const HELP = `Usage: npm run test:mutation -- [options]

Changes the source in one place at a time, and runs the specs that should notice.

  --mutants <n>   how many mutants are drawn (240)
  --seed <n>      repeats a run
  --only <text>   only sources whose path contains the text

Example: npm run test:mutation -- --mutants 40 --only src/ingestion/domain`;

const tracked = (patterns) => execFileSync('git', ['ls-files', '-z', '--', ...patterns], { encoding: 'utf8' }).split('\0').filter(Boolean);

/** Copies the repository, so that mutants are never in the sources that people edit. */
function copyOfRepository() {
  const copy = mkdtempSync(join(tmpdir(), 'load-data-mutation-'));
  for (const name of tracked([])) cpSync(name, join(copy, name), { verbatimSymlinks: true });
  symlinkSync(resolve('node_modules'), join(copy, 'node_modules'));
  // The build is copied too: some specs start processes from it. These processes run the program without the mutant.
  cpSync('dist', join(copy, 'dist'), { recursive: true });
  return copy;
}

async function firstFailure(copy, specs, patienceMs) {
  const report = join(copy, 'report.json');
  rmSync(report, { force: true });
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', CONFIG, '--bail=1', '--reporter=json', `--outputFile=${report}`, ...specs];
  const vitest = spawn(process.execPath, args, { cwd: copy, stdio: 'ignore', detached: true });
  let isTooSlow = false;
  const timer = setTimeout(() => {
    isTooSlow = true;
    process.kill(-vitest.pid, 'SIGKILL');
  }, patienceMs);
  const code = await new Promise((done) => vitest.once('exit', done));
  clearTimeout(timer);
  if (isTooSlow) return 'it hangs';
  if (code === 0) return undefined;
  return failureIn(report) ?? 'it does not start';
}

function failureIn(report) {
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
    const failed = testResults.flatMap(({ assertionResults }) => assertionResults).find(({ status }) => status === 'failed');
    return failed?.fullName;
  } catch {
    return undefined;
  }
}

function drawMutants(random, count) {
  return Object.entries(TARGETS).flatMap(([title, { sources, without = [], share, stages }]) => {
    const paths = tracked(sources.map((source) => `:(glob)${source}`)).filter((path) => !path.endsWith('.spec.ts') && !without.includes(path) && path.includes(values.only));
    const all = paths.sort().flatMap((path) => mutantsOf(path, readFileSync(path, 'utf8')));
    const drawn = [];
    while (drawn.length < Math.round(count * share) && all.length > 0) drawn.push(...all.splice(random.below(all.length), 1));
    return drawn.map((mutant) => ({ ...mutant, title, stages }));
  });
}

async function baselines(copy, mutants) {
  const known = new Map();
  for (const specs of new Set(mutants.flatMap(({ stages }) => stages))) {
    const began = performance.now();
    const failure = (await firstFailure(copy, specs, 30 * 60_000)) && (await firstFailure(copy, specs, 30 * 60_000));
    if (failure) throw new Error(`Without a mutant, "${failure}" fails.`);
    known.set(specs, performance.now() - began);
  }
  return known;
}

const short = (text) => text.replace(/\s+/g, ' ').slice(0, MOST_SHOWN_LENGTH);
const described = ({ path, line, original, replacement }) => `${path}:${line}  ${short(original)}  ->  ${short(replacement)}`;
const isEquivalent = ({ path, original, replacement }) =>
  EQUIVALENT.some((known) => known.path === path && known.original === original && known.replacement === replacement);

/** @returns {Promise<{ killer?: string }>} the name of the test that failed. If there is none, the mutant survives. */
async function judge(copy, mutant, times) {
  const file = join(copy, mutant.path);
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.slice(0, mutant.from) + mutant.replacement + text.slice(mutant.to));
  try {
    for (const specs of mutant.stages) {
      const killer = await firstFailure(copy, specs, times.get(specs) * PATIENCE + 10_000);
      if (killer) return { killer };
    }
    return {};
  } finally {
    writeFileSync(file, text);
  }
}

async function main() {
  if (values.help) return console.log(HELP);
  console.log(`seed ${values.seed}`);
  const drawn = drawMutants(new Random(Number(values.seed)), Number(values.mutants));
  const mutants = drawn.filter((mutant) => !isEquivalent(mutant));
  const copies = Array.from({ length: COPIES }, copyOfRepository);
  const progress = new Progress();
  const survivors = [];
  const judgeAll = async (copy, waiting, times) => {
    for (const [at, mutant] of waiting) {
      progress.show(`${at + 1} of ${mutants.length}, ${survivors.length} survive: ${mutant.path}`);
      const { killer } = await judge(copy, mutant, times);
      progress.clear();
      console.log(`${killer ? 'killed  ' : 'SURVIVES'} ${described(mutant)}${killer ? `  (${short(killer)})` : ''}`);
      if (!killer) survivors.push(mutant);
    }
  };
  try {
    progress.show('the specs without a mutant');
    // Also the specs without a mutant run in both copies at once, because some fail or take longer on a busy machine.
    const [times] = await allDone(copies.map((copy) => baselines(copy, mutants)));
    const waiting = mutants.entries();
    await allDone(copies.map((copy) => judgeAll(copy, waiting, times)));
  } finally {
    progress.clear();
    for (const copy of copies) rmSync(copy, { recursive: true, force: true });
  }
  const killed = mutants.length - survivors.length;
  console.log(`\n${killed} of ${mutants.length} killed (${Math.floor((100 * killed) / mutants.length)} %); ${drawn.length - mutants.length} left out as equivalent`);
  for (const mutant of survivors) console.log(`  ${described(mutant)}`);
  return undefined;
}

await main();
