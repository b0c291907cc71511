import { runHistory } from './history.mjs';
import { PROMISES } from './model.mjs';

/**
 * For each service, the promises that it breaks, and how. One service breaks several promises if breaking one doesn't
 * break another, because most of the time is spent starting services.
 */
const SERVICES = [
  { breaks: {}, only: ['quiet', 'keys-again'], steps: 2 },
  { breaks: { start: "doesn't start" } },
  { breaks: { acknowledged: 'loses uploads', identity: 'forgets users and roles', outside: 'writes outside DATA_DIR' } },
  { breaks: { once: 'stores a line twice' } },
  { breaks: { keys: 'forgets keys', whole: 'truncates a file' } },
  { breaks: { answers: 'answers with unknown errors' } },
  // The rig reports refusals while `/health/ready` answers 200 only when they last for seconds, so this service needs
  // the long action.
  { breaks: { ready: 'refuses while ready', live: 'stands still' }, only: ['quiet'], steps: 2 },
  // This body blocks the event loop of a service that parses whole bodies, which breaks the promise about
  // `/health/live`.
  { breaks: { live: 'parses whole bodies' }, only: ['hostile-bodies'], steps: 1, plans: { 'hostile-bodies': { body: '10 MiB of {} in 10 KB', clients: 5 } } },
  { breaks: { lock: 'shares DATA_DIR' }, only: ['lock-files'], steps: 1 },
  { store: 's3', breaks: { acknowledged: 'loses uploads' }, steps: 1 },
  { store: 's3', breaks: { keys: 'forgets keys' }, steps: 1 },
];
const ONLY = ['keys-at-once'];
const STEPS = 3;
const LANES = 4;
const PRELOAD = new URL('spoiled-service.mjs', import.meta.url).href;

/**
 * Tests the attack rig: it must find each broken promise of the services that spoiled-service.mjs spoils, and nothing
 * in an intact service. Services with a store in a bucket are tested if `stores` has `s3`.
 *
 * @returns {Promise<boolean>} whether the rig passes.
 */
export default async function selfTest({ seed, stores, progress }) {
  const services = SERVICES.filter(({ store = 'disk' }) => store === 'disk' || stores.includes(store));
  const results = [];
  const report = (what, ok) => {
    results.push(ok);
    progress.clear();
    console.log(`self-test: ${what}: ${ok ? 'right' : 'WRONG'}`);
  };
  const untested = Object.keys(PROMISES).filter((promise) => !SERVICES.some(({ breaks }) => breaks[promise]));
  if (untested.length > 0) report(`no service breaks: ${untested.join(', ')}`, false);
  let next = 0;
  const testNext = async () => {
    const { store = 'disk', breaks, only = ONLY, steps = STEPS, plans } = services[next++];
    const [promises, spoils] = [Object.keys(breaks), Object.values(breaks)];
    const variables = spoils.length > 0 ? { preload: [PRELOAD], values: { SPOILS: spoils.join() } } : undefined;
    const { findings } = await runHistory({
      store,
      seed: seed + next,
      only,
      steps,
      plans,
      variables,
      noFileSystem: 'a directory is enough',
      printLine: () => undefined,
      progress: { show: () => progress.show(`self-test: ${results.length} of ${services.length}`) },
      number: 0,
    });
    const found = [...new Set(findings.map(({ promise }) => promise))];
    const ok = promises.length > 0 ? promises.every((promise) => found.includes(promise)) : found.length === 0;
    report(`a service${store === 'disk' ? '' : ` on ${store}`} that ${spoils.join(', ') || 'keeps its promises'}: ${found.length === 0 ? 'nothing found' : `found in: ${found.join(', ')}`}`, ok);
    if (promises.length === 0) for (const { sentence } of findings) console.log(`  ${sentence}`);
  };
  // The intact service runs alone, because a loaded machine could make it miss the time limits of its promises.
  await testNext();
  const lane = async () => {
    while (next < services.length) await testNext();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return results.every(Boolean);
}
