import { withServices } from '../../bench/support/service.mjs';
import { withBucket } from '../crash/bucket.mjs';
import { Random } from '../../dist/testing/random.js';
import { ACTIONS } from './actions/index.mjs';
import { BucketWorld } from './bucket-world.mjs';
import { DiskWorld } from './disk-world.mjs';
import { HistoryOver } from './world.mjs';

const WORLDS = { disk: DiskWorld, s3: BucketWorld };
const WITHIN = { disk: (work) => work(), s3: withBucket };
const USUAL_STEPS = 7;
const NUMBERS_BESIDE = [0, 1, 2];

/**
 * Plans the steps of a history. Faults and kinds of clients are dealt like cards, so that none comes again before all
 * others had their turn.
 *
 * @param {import('../../dist/testing/random.js').Random} random
 * @param {import('./actions/index.mjs').Action[]} actions
 * @param {Record<string, object>} plans choices that are fixed, by the name of the action
 */
function planSteps(random, actions, steps, plans) {
  const faults = dealer(actions.filter(({ isExclusive }) => isExclusive), random);
  const clients = dealer(actions.filter(({ isExclusive }) => !isExclusive), random);
  const numbers = dealer(NUMBERS_BESIDE, random);
  return Array.from({ length: steps }, () => {
    const fault = faults(1);
    const [number] = numbers(1);
    // The clients begin first, so that the fault hits their requests.
    return [...clients(fault.length > 0 ? number : number + 1), ...fault].map((action) => ({ action, plan: { ...action.plan(random), ...plans[action.name] }, seed: random.below(2 ** 31) }));
  });
}

function dealer(items, random) {
  const shuffled = items.map((item) => ({ item, at: random.next() })).sort((a, b) => a.at - b.at);
  let dealt = 0;
  return (number) => (items.length > 0 ? Array.from({ length: number }, () => shuffled[dealt++ % items.length].item) : []);
}

/**
 * Runs one history. The same seed repeats the choices of the history, but not the timing of its processes.
 *
 * @param {{ store: 'disk' | 's3', seed: number, only?: string[], steps?: number, plans?: Record<string, object>,
 * variables?: object, noFileSystem?: string, printLine: (line: string) => void, progress:
 * import('../../bench/support/progress.mjs').Progress, number: number }} options `plans` fixes choices, by the name of
 * the action
 * @returns {Promise<{ findings: import('./model.mjs').Finding[], tried: Map<string, number>, acknowledged: number,
 * answers: number, identities: number, probes: number, starved: number }>}
 */
export function runHistory({ store, seed, only, steps: length = USUAL_STEPS, plans = {}, variables, noFileSystem, printLine, progress, number }) {
  return WITHIN[store]((bucket) => withServices(async (services) => {
    // The seed is mixed, because the random sequences of neighbouring seeds would begin alike.
    const random = new Random(new Random(seed).below(2 ** 31));
    const source = new Random(seed + 1);
    const seeds = () => new Random(source.below(2 ** 31));
    const world = await WORLDS[store].make({ services, random, seeds, noFileSystem, variables, bucket, progress });
    const { model } = world;
    const actions = ACTIONS[store].filter(({ name, needs }) => (!only || only.includes(name)) && (!needs || world[needs]));
    const steps = planSteps(random, actions, length, plans);
    const titles = steps.map((step) => step.map(({ action, plan }) => action.title(plan, world)).join(' + '));
    printLine(`history ${number}, seed ${seed}, ${world.title}: ${titles.join(' | ') || 'only uploads'}`);
    const tried = new Map();
    const began = performance.now();
    const at = (text, step) => {
      model.step = step;
      model.within = `in ${text}`;
      model.moment = `history ${number}, seed ${seed}, ${text}`;
    };
    const showing = setInterval(() => progress.show(`${model.moment}; ${model.ledger.acknowledged} acknowledged, ${model.findings.length} broken`), 200);
    try {
      at('the first start', 'the first start');
      await world.begin();
      for (const [index, step] of steps.entries()) {
        at(`step ${index + 1} of ${steps.length} (${titles[index]}), ${Math.round((performance.now() - began) / 1000)} s`, step.at(-1)?.action.name ?? '');
        await world.ensureUp();
        const results = await Promise.allSettled(
          step.map(({ action, plan, seed: own }) => {
            tried.set(action.name, (tried.get(action.name) ?? 0) + 1);
            return action.run(world, plan, { random: new Random(own), replica: () => world.someReplica() });
          }),
        );
        const failed = results.find(({ status }) => status === 'rejected');
        if (failed) throw failed.reason;
      }
      at(`the end, after ${titles.at(-1)}`, 'the end');
      await world.finish();
    } catch (error) {
      if (!(error instanceof HistoryOver)) throw error;
      await world.giveUp();
    } finally {
      clearInterval(showing);
      await world.dispose();
    }
    const { findings, ledger, answers } = model;
    return { findings, tried, acknowledged: ledger.acknowledged, answers, identities: world.identity?.acknowledged ?? 0, ...world.liveAnswers };
  }));
}
