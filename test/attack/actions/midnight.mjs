import { setTimeout as delay } from 'node:timers/promises';

const BEFORE_MIDNIGHT_MS = 4_000;
/**
 * How an upload is sent over midnight: the pauses between its pieces add up to more than `BEFORE_MIDNIGHT_MS`, the rest
 * of the day when it begins.
 */
const OVER_MIDNIGHT = { pieces: 5, pauseMs: 1_500 };
const LONGEST_PAUSE_MS = 1_000;
const LEAST_BYTES = 2_000;

export default {
  name: 'midnight',
  isExclusive: true,
  plan: (random) => ({ uploads: 1 + random.below(4), isQuiet: random.chance(0.7) }),
  title: ({ uploads, isQuiet }) => `${uploads} keyed uploads over midnight${isQuiet ? ', and no others' : ''}`,
  async run(world, { uploads, isQuiet }, { random }) {
    const { clock } = world;
    await clock.jumpTo(clock.offset + clock.untilMidnight() - BEFORE_MIDNIGHT_MS);
    // If other uploads arrived too, the service would open its files for the new day for them, before the uploads over
    // midnight need these files.
    world.isQuiet = isQuiet;
    await Promise.all(Array.from({ length: uploads }, () => overMidnight(world, random)));
    world.isQuiet = false;
  },
};

async function overMidnight(world, random) {
  // The service looks up the upload's key when its first piece arrives, which is on the old day.
  let some;
  do some = world.someUpload(random);
  while (!(some.sent.size > LEAST_BYTES));
  const upload = world.keyed(some);
  await world.replica.upload(upload, { pace: OVER_MIDNIGHT });
  await delay(random.below(LONGEST_PAUSE_MS));
  await world.replica.upload(upload);
}
