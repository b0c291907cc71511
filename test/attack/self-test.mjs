import { runHistory } from './history.mjs';
import { PROMISES } from './model.mjs';

/**
 * The spoiled services: the promises that each breaks, and how. The first breaks none. Several promises share a service
 * if breaking one doesn't break another, because most of the time is spent starting services.
 */
const SERVICES = [
  { breaks: {}, only: ['quiet', 'keys-again'], steps: 2 },
  { breaks: { start: "doesn't start" } },
  { breaks: { acknowledged: 'loses uploads', identity: 'forgets users and roles', outside: 'writes outside DATA_DIR' } },
  { breaks: { once: 'stores a line twice' } },
  { breaks: { keys: 'forgets keys', whole: 'truncates a file' } },
  { breaks: { answers: 'answers with unknown errors' } },
  // Refusals are a finding only when they last for seconds.
  { breaks: { ready: 'refuses while ready', live: 'stands still' }, only: ['quiet'], steps: 2 },
  { breaks: { lock: 'shares DATA_DIR' }, only: ['lock-files'], steps: 1 },
];
/** The default actions: only one that takes just a moment. */
const ONLY = ['keys-at-once'];
const STEPS = 3;
/** How many spoiled services run at the same time. */
const LANES = 4;
const PRELOAD = new URL('spoiled-service.mjs', import.meta.url).href;

/**
 * Tests the rig: it must find each broken promise of a spoiled service (spoiled-service.mjs), and nothing in an intact
 * one.
 *
 * @returns {Promise<boolean>} whether the rig passes.
 */
export default async function selfTest({ seed, progress }) {
  const results = [];
  const tell = (what, ok) => {
    results.push(ok);
    progress.clear();
    console.log(`self-test: ${what}: ${ok ? 'right' : 'WRONG'}`);
  };
  const untested = Object.keys(PROMISES).filter((promise) => !SERVICES.some(({ breaks }) => breaks[promise]));
  if (untested.length > 0) tell(`no service breaks: ${untested.join(', ')}`, false);
  let next = 0;
  const testNext = async () => {
    const { breaks, only = ONLY, steps = STEPS } = SERVICES[next++];
    const [promises, spoils] = [Object.keys(breaks), Object.values(breaks)];
    const variables = spoils.length > 0 ? { preload: [PRELOAD], values: { SPOILS: spoils.join() } } : undefined;
    const { findings } = await runHistory({
      store: 'disk',
      seed: seed + next,
      only,
      steps,
      variables,
      noFileSystem: 'a directory is enough',
      tell: () => undefined,
      progress: { show: () => progress.show(`self-test: ${results.length} of ${SERVICES.length}`) },
      number: 0,
    });
    const found = [...new Set(findings.map(({ promise }) => promise))];
    const ok = promises.length > 0 ? promises.every((promise) => found.includes(promise)) : found.length === 0;
    tell(`a service that ${spoils.join(', ') || 'keeps its promises'}: ${found.length === 0 ? 'nothing found' : `found in: ${found.join(', ')}`}`, ok);
    if (promises.length === 0) for (const { sentence } of findings) console.log(`  ${sentence}`);
  };
  // The intact service runs alone, because it must keep limits of time.
  await testNext();
  const lane = async () => {
    while (next < SERVICES.length) await testNext();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return results.every(Boolean);
}
