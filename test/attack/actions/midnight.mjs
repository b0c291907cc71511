import { setTimeout as delay } from 'node:timers/promises';

const BEFORE_MIDNIGHT_MS = 4_000;
/**
 * The pace of an upload over midnight. Its pauses together are longer than `BEFORE_MIDNIGHT_MS`, the rest of the day.
 */
const OVER_MIDNIGHT = { pieces: 5, pauseMs: 1_500 };
const LONGEST_PAUSE_MS = 1_000;
const LEAST_BYTES = 2_000;

/** A day (UTC) ends while keyed uploads arrive. Each is repeated on the new day. */
export default {
  name: 'midnight',
  isExclusive: true,
  plan: (random) => ({ uploads: 1 + random.below(4), isQuiet: random.chance(0.7) }),
  title: ({ uploads, isQuiet }) => `${uploads} keyed uploads over midnight${isQuiet ? ', and no others' : ''}`,
  async run(world, { uploads, isQuiet }, { random }) {
    const { clock } = world;
    await clock.jumpTo(clock.offset + clock.untilMidnight() - BEFORE_MIDNIGHT_MS);
    // Other uploads would make the service open its files for the new day before these uploads do.
    world.isQuiet = isQuiet;
    await Promise.all(Array.from({ length: uploads }, () => overMidnight(world, random)));
    world.isQuiet = false;
  },
};

async function overMidnight(world, random) {
  // Picks an upload with a file of some length. Its start arrives on the old day, when its key is looked up.
  let some;
  do some = world.someUpload(random);
  while (!(some.sent.size > LEAST_BYTES));
  const upload = world.keyed(some);
  await world.replica.upload(upload, { pace: OVER_MIDNIGHT });
  await delay(random.below(LONGEST_PAUSE_MS));
  await world.replica.upload(upload);
}
