import { setTimeout as delay } from 'node:timers/promises';
import { DAY_MS, HOUR_MS } from '../clock.mjs';

const BEFORE_MIDNIGHT_MS = 2_500;
/** Together they are longer than what is left of the day. */
const OVER_MIDNIGHT = { pieces: 5, pauseMs: 1_000 };
const REPEATS = 20;

/** The clock jumps, or a day ends while keyed uploads are on their way. */
export default {
  name: 'clock',
  isExclusive: true,
  plan: (random) => {
    const jump = random.pick(['midnight', 'hours', 'days', 'days']);
    const sign = random.pick([1, -1]);
    if (jump === 'midnight') return { jump, uploads: 1 + random.below(4), isQuiet: random.chance(0.7) };
    return { jump, by: sign * (jump === 'hours' ? (1 + random.below(20)) * HOUR_MS : (2 + random.below(3)) * DAY_MS), keyed: 1 + random.below(3) };
  },
  title: ({ jump, by, uploads, isQuiet }) =>
    jump === 'midnight'
      ? `${uploads} keyed uploads over midnight${isQuiet ? ', and no others' : ''}`
      : `clock ${by > 0 ? '+' : '-'}${jump === 'hours' ? `${Math.abs(by) / HOUR_MS} h` : `${Math.abs(by) / DAY_MS} days and back`}`,
  async run(world, { jump, by, uploads, keyed, isQuiet }, { random }) {
    const { clock, replica, model } = world;
    if (jump === 'midnight') {
      clock.jumpTo(clock.offset + clock.untilMidnight() - BEFORE_MIDNIGHT_MS);
      // Others would have the service look at the new day.
      world.isQuiet = isQuiet;
      await Promise.all(Array.from({ length: uploads }, () => overMidnight(world, random)));
      world.isQuiet = false;
      return;
    }
    const { offset } = clock;
    clock.jumpTo(offset + by);
    for (let upload = 0; upload < keyed; upload++) await replica.upload(world.keyed(world.someUpload(random)));
    if (jump === 'days') clock.jumpTo(offset);
    await Promise.all(model.held(random, REPEATS).map((upload) => replica.upload(upload)));
  },
};

async function overMidnight(world, random) {
  const upload = world.keyed(world.someUpload(random));
  await world.replica.upload(upload, { pace: OVER_MIDNIGHT });
  await delay(random.below(1_000));
  await world.replica.upload(upload);
}
