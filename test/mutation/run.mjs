// Changes the source in one place at a time (a mutant), and runs the tests that should notice the change. Prints the
// mutants that no test notices.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Progress } from '../../bench/support/progress.mjs';
import { allDone } from '../../dist/common/each-of.js';
import { Random } from '../../dist/testing/random.js';
import { mutantsOf, withProbes } from './mutants.mjs';
import { TARGETS } from './targets.mjs';

const CONFIG = 'test/mutation/vitest.config.ts';
/** Mutants are tried two at a time, each in a copy of its own: half of the time of a try is spent in one thread. */
const COPIES = 2;
/** So many specs run in one process while the specs run without a mutant. */
const CHUNK = 20;
/** The tests of a mutant may take this many times as long as with the unchanged source, and 30 s more. */
const PATIENCE = 3;
const MOST_SHOWN_LENGTH = 100;
/** Mutants that change nothing that the service promises: the lines (`code`), what becomes of them, and the reason. */
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

/**
 * Runs the specs of a plan.
 *
 * @param {import('./plan.ts').Plan} plan
 * @returns {Promise<{ name: string, spec?: string, isSlow?: boolean }[]>} the tests that failed. `isSlow` says that one
 *   may have failed only because the machine is busy.
 */
async function failuresOf(copy, plan, patienceMs, options = []) {
  const report = join(copy, 'report.json');
  rmSync(report, { force: true });
  writeFileSync(join(copy, 'plan.json'), JSON.stringify(plan));
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', CONFIG, '--reporter=json', `--outputFile=${report}`, ...options];
  const vitest = spawn(process.execPath, args, { cwd: copy, stdio: 'ignore', detached: true, env: { ...process.env, MUTATION_PLAN: join(copy, 'plan.json') } });
  let isTooSlow = false;
  const timer = setTimeout(() => {
    isTooSlow = true;
    process.kill(-vitest.pid, 'SIGKILL');
  }, patienceMs);
  const code = await new Promise((done) => vitest.once('exit', done));
  clearTimeout(timer);
  if (isTooSlow) return [{ name: 'it hangs', isSlow: true }];
  if (code === 0) return [];
  const failures = failuresIn(copy, report);
  return failures.length > 0 ? failures : [{ name: 'it does not start' }];
}

function failuresIn(copy, report) {
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
    return testResults.flatMap(({ name: path, assertionResults }) => assertionResults.filter(({ status }) => status === 'failed').map((failed) => ({
      name: [...failed.ancestorTitles, failed.title].join(' > '),
      spec: path.slice(copy.length + 1),
      isSlow: failed.failureMessages.some((message) => /timed out/i.test(message)),
    })));
  } catch {
    // Vitest writes no report if it fails itself.
    return [];
  }
}

/** Whether a spec may take minutes. */
const isLong = (spec) => /\.slow\.|^test\/integration\//.test(spec);

const inChunks = (specs) => Array.from({ length: Math.ceil(specs.length / CHUNK) }, (_, at) => specs.slice(at * CHUNK, (at + 1) * CHUNK));

/** Lists the specs of a group: those whose path contains one of the texts. Long specs are named in full. */
function specsOf(stages) {
  const isNamed = (path, text) => (isLong(path) ? path === text : path.includes(text));
  return tracked(['src/**/*.spec.ts', 'test/e2e/*.spec.ts', 'test/integration/*.spec.ts']).filter((path) => stages.flat().some((text) => isNamed(path, text)));
}

function drawMutants(random, count) {
  return Object.values(TARGETS).flatMap(({ sources, without = [], share, stages }) => {
    const paths = tracked(sources.map((source) => `:(glob)${source}`)).filter((path) => !path.endsWith('.spec.ts') && !without.includes(path) && path.includes(values.only));
    const all = paths.sort().flatMap((path) => mutantsOf(path, readFileSync(path, 'utf8')));
    const drawn = [];
    while (drawn.length < Math.round(count * share) && all.length > 0) drawn.push(...all.splice(random.below(all.length), 1));
    return drawn.map((mutant) => ({ ...mutant, specs: specsOf(stages) }));
  }).map((mutant, number) => ({ ...mutant, number }));
}

/**
 * Runs the specs without a mutant, and records which mutants each test reaches.
 *
 * @returns {Promise<Map<string, import('./plan.ts').SpecRecord>>} the records by spec.
 */
async function recorded(copies, mutants) {
  const paths = [...new Set(mutants.map(({ path }) => path))];
  for (const path of paths) {
    const text = withProbes(readFileSync(path, 'utf8'), mutants.filter((mutant) => mutant.path === path));
    for (const copy of copies) writeFileSync(join(copy, path), text);
  }
  const specs = [...new Set(mutants.flatMap((mutant) => mutant.specs))];
  const chunks = [...specs.filter(isLong).map((spec) => [spec]), ...inChunks(specs.filter((spec) => !isLong(spec)))].values();
  const records = await allDone(copies.map(async (copy) => {
    const recordTo = join(copy, 'records.ndjson');
    for (const chunk of chunks) {
      for (const { name } of await failuresOf(copy, { specs: chunk, skipped: {}, recordTo }, 60 * 60_000)) console.log(`Left out, because it fails without a mutant: ${name}`);
    }
    return existsSync(recordTo) ? readFileSync(recordTo, 'utf8').trim().split('\n').map((line) => JSON.parse(line)) : [];
  }));
  for (const copy of copies) {
    for (const path of paths) cpSync(path, join(copy, path));
  }
  return new Map(records.flat().map((record) => [record.spec, record]));
}

/**
 * Plans the specs of a mutant: only the tests that reach it, the quickest specs first.
 *
 * @returns {{ plan: import('./plan.ts').Plan, ms: number }} `ms` is how long the plan takes without the mutant.
 */
function planOf({ number, site, specs }, records) {
  const all = specs.flatMap((spec) => records.get(spec) ?? []);
  // Code that runs when its file is imported was reached by the first spec alone, because specs share what is imported.
  const isShared = !site || all.some(({ imports }) => imports.includes(number));
  const planned = all.flatMap(({ spec, ms, hooks, tests }) => {
    const names = Object.keys(tests);
    const reaching = names.filter((name) => tests[name].mutants.includes(number));
    const isWhole = isShared || hooks.includes(number);
    if (!isWhole && reaching.length === 0) return [];
    const skipped = names.filter((name) => tests[name].hasFailed || !(isWhole || reaching.includes(name)));
    return [{ spec, ms: ms - skipped.reduce((sum, name) => sum + tests[name].ms, 0), skipped }];
  }).sort((one, other) => one.ms - other.ms);
  return {
    plan: { specs: planned.map(({ spec }) => spec), skipped: Object.fromEntries(planned.map(({ spec, skipped }) => [spec, skipped])) },
    ms: planned.reduce((sum, { ms }) => sum + ms, 0),
  };
}

const short = (text) => text.replace(/\s+/g, ' ').slice(0, MOST_SHOWN_LENGTH);
const described = ({ path, line, original, replacement }) => `${path}:${line}  ${short(original)}  ->  ${short(replacement)}`;
const isEquivalent = (mutant) => EQUIVALENT.some((known) => ['path', 'code', 'changed'].every((member) => known[member] === mutant[member]));

/** Returns the first test that notices a mutant. */
async function killerOf(copy, mutant, { plan, ms }, patience) {
  if (plan.specs.length === 0) return undefined;
  const file = join(copy, mutant.path);
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.slice(0, mutant.from) + mutant.replacement + text.slice(mutant.to));
  try {
    const [killer] = await failuresOf(copy, plan, ms * patience + 30_000, ['--bail=1']);
    return killer;
  } finally {
    writeFileSync(file, text);
  }
}

/** Lists the mutants whose killers fail without a mutant too, when no tests but all the killers run. */
async function falselyKilled(copy, killed, records) {
  const killers = [...killed.values()];
  const specs = [...new Set(killers.flatMap(({ spec }) => spec ?? []))];
  const isKiller = (spec, name) => killers.some((killer) => killer.spec === spec && killer.name === name);
  const skipped = Object.fromEntries(specs.map((spec) => [spec, Object.keys(records.get(spec).tests).filter((name) => !isKiller(spec, name))]));
  const failures = await failuresOf(copy, { specs, skipped }, 60 * 60_000);
  return [...killed].filter(([, { spec, name }]) => failures.some((failure) => failure.spec === spec && failure.name === name)).map(([mutant]) => mutant);
}

async function main() {
  if (values.help) return console.log(HELP);
  console.log(`seed ${values.seed}`);
  const began = Date.now();
  const drawn = drawMutants(new Random(Number(values.seed)), Number(values.mutants));
  const mutants = drawn.filter((mutant) => !isEquivalent(mutant));
  const copies = Array.from({ length: COPIES }, copyOfRepository);
  const progress = new Progress();
  const killed = new Map();
  /** The spec that noticed the last mutant of a file often notices the next one too. */
  const lastSpecs = new Map();
  const judge = async (copy, mutant, planned, patience = PATIENCE) => {
    const first = lastSpecs.get(mutant.path);
    planned.plan.specs.sort((one, other) => Number(other === first) - Number(one === first));
    const killer = await killerOf(copy, mutant, planned, patience);
    progress.clear();
    console.log(`${killer ? 'killed  ' : 'SURVIVES'} ${described(mutant)}  (${killer ? short(killer.name) : `${planned.plan.specs.length} specs`})`);
    if (!killer) return killed.delete(mutant);
    if (killer.spec) lastSpecs.set(mutant.path, killer.spec);
    return killed.set(mutant, killer);
  };
  try {
    progress.show('the specs without a mutant');
    const records = await recorded(copies, mutants);
    const waiting = mutants.values();
    await allDone(copies.map(async (copy) => {
      for (const mutant of waiting) {
        progress.show(`${mutant.number + 1} of ${drawn.length}, ${killed.size} killed: ${mutant.path}`);
        await judge(copy, mutant, planOf(mutant, records));
      }
    }));
    // What may have failed for another reason than the mutant is tried again, alone: with more time, and with the tests
    // before the killer, in case it needs what they leave behind.
    const slow = [...killed].filter(([, { isSlow }]) => isSlow).map(([mutant]) => mutant);
    for (const mutant of slow) await judge(copies[0], mutant, planOf(mutant, records), 2 * PATIENCE);
    for (const mutant of await falselyKilled(copies[0], killed, records)) {
      const { plan, ms } = planOf(mutant, records);
      await judge(copies[0], mutant, { plan: { ...plan, skipped: {} }, ms }, 4 * PATIENCE);
    }
  } finally {
    progress.clear();
    for (const copy of copies) rmSync(copy, { recursive: true, force: true });
  }
  console.log(`\n${killed.size} of ${mutants.length} killed (${Math.floor((100 * killed.size) / mutants.length)} %) in ${Math.round((Date.now() - began) / 60_000)} minutes; ${drawn.length - mutants.length} left out as equivalent`);
  for (const mutant of mutants) if (!killed.has(mutant)) console.log(`  ${described(mutant)}`);
  return undefined;
}

await main();
