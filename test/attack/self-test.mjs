import { runHistory } from './history.mjs';

/** How a service breaks a promise, and which finding is expected. The first service breaks none. */
const SERVICES = [
  { spoiled: undefined, promise: undefined },
  { spoiled: 'loses uploads', promise: 'acknowledged' },
  { spoiled: 'forgets keys', promise: 'keys' },
  // More steps, because it is a finding only when it lasts for seconds.
  { spoiled: 'refuses while ready', promise: 'ready', steps: 5 },
  { spoiled: 'stands still', promise: 'live' },
];
const STEPS = 2;
const ONLY = ['quiet', 'keys-again'];
const PRELOAD = new URL('spoiled-service.mjs', import.meta.url).href;

/**
 * Tests the rig: it must find the broken promise of each spoiled service, and nothing in an intact one.
 *
 * @returns {Promise<boolean>} whether the rig passes.
 */
export default async function selfTest({ seed, progress }) {
  let isFound = true;
  for (const [index, { spoiled, promise, steps = STEPS }] of SERVICES.entries()) {
    const variables = spoiled && { preload: [PRELOAD], values: { SPOILED: spoiled } };
    const { findings } = await runHistory({ store: 'disk', seed: seed + index, only: ONLY, steps, variables, tell: () => undefined, progress, number: 0 });
    progress.clear();
    const found = [...new Set(findings.map((finding) => finding.promise))];
    const ok = promise ? found.includes(promise) : found.length === 0;
    isFound &&= ok;
    console.log(`self-test: a service that ${spoiled ?? 'keeps its promises'}: ${found.length === 0 ? 'nothing found' : `found in: ${found.join(', ')}`}: ${ok ? 'right' : 'WRONG'}`);
    if (!promise) for (const { sentence } of findings) console.log(`  ${sentence}`);
  }
  return isFound;
}
