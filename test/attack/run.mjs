// Attacks the built service with random histories of simultaneous faults and requests. Compares the service's answers
// and its store with its promises.
import { parseArgs } from 'node:util';
import { runCommand } from '../../bench/support/command.mjs';
import { Progress } from '../../bench/support/progress.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { missingBucket } from '../crash/bucket.mjs';
import { LoopFileSystem } from '../crash/loop-file-system.mjs';
import { ACTIONS } from './actions/index.mjs';
import { runHistory } from './history.mjs';
import { PROMISES } from './model.mjs';
import selfTest from './self-test.mjs';

const SELF_TEST = 'self-test';
const MINUTES = '5';
/**
 * The default of `--minutes` with `--short`. This time is over during the first history, so no second history begins.
 */
const SHORT_MINUTES = '0.1';
/**
 * The stores that `--short` attacks. A bucket isn't one of them, because it takes minutes until everything left behind
 * in it is swept.
 */
const SHORT_STORES = 'disk';
const SHORT_FAULTS = ['midnight', 'clock', 'damaged-keys', 'volume-away', 'part-away', 'kill', 'lock-files'];
const SHORT_CLIENTS = ['hostile-bodies', 'keys-again', 'keys-at-once', 'slow-uploads'];
/** The hostile bodies of `--short`: the worst case for which a limit of `/health/live` is promised. */
const SHORT_BODIES = { body: '10 MiB of {} in 10 KB', clients: 60 };
const SHORT_PLANS = { disk: { only: [...SHORT_FAULTS, ...SHORT_CLIENTS], steps: SHORT_FAULTS.length, plans: { 'hostile-bodies': SHORT_BODIES } } };
const MOST_SEED = 2 ** 31;

const duration = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

async function attack({ minutes, seed, only, plans, stores, noFileSystem, progress }) {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const total = { acknowledged: 0, answers: 0, identities: 0, probes: 0, starved: 0 };
  const tried = new Map();
  const findings = [];
  let histories = 0;
  while (stores.length > 0 && (histories < stores.length || seconds() < minutes * 60)) {
    const store = stores[histories % stores.length];
    const result = await runHistory({
      store,
      seed: (seed + histories) % MOST_SEED,
      ...(only ? { only } : plans[store]),
      noFileSystem,
      number: (histories += 1),
      printLine: (line) => {
        progress.clear();
        console.log(line);
      },
      progress: { show: (text) => progress.show(`${duration(seconds())} of ${duration(minutes * 60)}, ${text}`) },
    });
    progress.clear();
    for (const { promise, sentence, moment, count } of result.findings) console.log(`  ${promise}: ${sentence}${count > 1 ? ` (and ${count - 1} more of its kind)` : ''} - ${moment}`);
    findings.push(...result.findings);
    for (const name of Object.keys(total)) total[name] += result[name];
    for (const [name, count] of result.tried) tried.set(name, (tried.get(name) ?? 0) + count);
  }
  console.log(`\nseed ${seed}: ${histories} histories in ${duration(seconds())}`);
  console.log(`tried: ${[...tried].sort().map(([name, count]) => `${name} ${count}`).join(', ')}`);
  console.log(`${total.answers} uploads answered, ${total.acknowledged} acknowledged; ${total.identities} users and roles created; ${total.probes} answers of /health/live, and ${total.starved} while it had no CPU`);
  for (const [promise, title] of Object.entries(PROMISES)) {
    const own = findings.filter((finding) => finding.promise === promise);
    const after = [...new Set(own.map(({ step }) => step))].join(', ');
    console.log(`${own.length === 0 ? 'kept  ' : 'BROKEN'}  ${title}${own.length === 0 ? '' : `: ${own.length} x, in ${after}`}`);
  }
  return findings.length === 0;
}

const HELP = `Usage: npm run test:attack -- [options]

Attacks the built service by random histories, and checks what must hold. Then checks that faulty services are found.

  --minutes <n>      how long (${MINUTES})
  --seed <n>         repeats the choices of a run, but not the timing of processes
  --only <kinds>     only these kinds of attacks, separated by commas; ${SELF_TEST}: only the faulty services
  --stores <stores>  disk, s3 or both (disk,s3); s3 needs Go once
  --short            a minute, with fixed choices

Example: npm run test:attack -- --minutes=10 --stores=disk
`;

function optionsOf(values) {
  const kinds = [...new Set(Object.values(ACTIONS).flat().map(({ name }) => name)), SELF_TEST];
  const [minutes, seed] = [Number(values.minutes ?? (values.short ? SHORT_MINUTES : MINUTES)), Number(values.seed)];
  const only = values.only?.split(',');
  const stores = (values.stores ?? (values.short ? SHORT_STORES : Object.keys(ACTIONS).join(','))).split(',');
  const problem =
    (!(minutes > 0) && '--minutes must be a number above 0') ||
    (!(Number.isSafeInteger(seed) && seed >= 0) && '--seed must be a whole number') ||
    (only?.some((name) => !kinds.includes(name)) && `--only must be of ${kinds.join(', ')}`) ||
    (stores.some((name) => !ACTIONS[name]) && `--stores must be of ${Object.keys(ACTIONS).join(', ')}`);
  return problem ? { problem } : { minutes, seed, only, plans: values.short ? SHORT_PLANS : {}, stores };
}

async function main() {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * MOST_SEED)) },
      only: { type: 'string' },
      stores: { type: 'string' },
      short: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const { problem, ...options } = optionsOf(values);
  if (problem) {
    console.error(problem);
    return 1;
  }
  console.log(`seed ${options.seed}`);
  const noFileSystem = await withServices((services) => LoopFileSystem.missing(services));
  if (noFileSystem) console.log(`No separate volume (${noFileSystem}): DATA_DIR is a directory, which is not unmounted, filled or made read-only.`);
  const noBucket = options.stores.includes('s3') ? missingBucket() : undefined;
  if (noBucket) console.log(`No bucket: ${noBucket}.`);
  const hasKind = (store) => !options.only || ACTIONS[store].some(({ name }) => options.only.includes(name));
  const stores = options.stores.filter((name) => name !== 's3' || !noBucket);
  const progress = new Progress();
  const isKept = options.only?.every((name) => name === SELF_TEST) || (await attack({ ...options, stores: stores.filter(hasKind), noFileSystem, progress }));
  const canFail = (options.only && !options.only.includes(SELF_TEST)) || (await selfTest({ ...options, stores, progress }));
  return isKept && canFail ? 0 : 1;
}

await runCommand(main);
