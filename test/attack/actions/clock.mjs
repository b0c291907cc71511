import { DAY_MS, HOUR_MS } from '../clock.mjs';

const REPEATS = 20;

export default {
  name: 'clock',
  isExclusive: true,
  plan: (random) => {
    const isBack = random.chance(0.6);
    const by = isBack ? (2 + random.below(3)) * DAY_MS : (1 + random.below(20)) * HOUR_MS;
    return { isBack, by: random.pick([1, -1]) * by, keyed: 1 + random.below(3) };
  },
  title: ({ isBack, by }) => `clock ${by > 0 ? '+' : '-'}${isBack ? `${Math.abs(by) / DAY_MS} days and back` : `${Math.abs(by) / HOUR_MS} h`}`,
  async run(world, { isBack, by, keyed }, { random }) {
    const { clock, replica, model } = world;
    const { offset } = clock;
    await clock.jumpTo(offset + by);
    for (let upload = 0; upload < keyed; upload++) await replica.upload(world.keyed(world.someUpload(random)));
    if (isBack) await clock.jumpTo(offset);
    await Promise.all(model.held(random, REPEATS).map((upload) => replica.upload(upload)));
  },
};
