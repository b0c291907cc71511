import { HOUR_MS, MINUTE_MS } from '../clock.mjs';

const REPEATS = 15;

export default {
  name: 'replica-clock',
  isExclusive: true,
  plan: (random) => ({ which: random.below(6), by: random.pick([1, -1]) * random.pick([20 * MINUTE_MS, 5 * HOUR_MS, 30 * HOUR_MS, 80 * HOUR_MS]) }),
  title: ({ by }) => `the clock of a replica is off by ${by > 0 ? '+' : '-'}${Math.abs(by) / MINUTE_MS} minutes`,
  async run(world, { which, by }, { random }) {
    const replica = world.replicas[which % world.replicas.length];
    await replica.clock.jumpTo(by);
    await replica.upload(world.keyed(world.someUpload(random)));
    await Promise.all(world.model.held(random, REPEATS).map((upload) => replica.upload(upload)));
  },
};
