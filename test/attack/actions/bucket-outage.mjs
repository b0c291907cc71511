import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'bucket-outage',
  isExclusive: true,
  plan: (random) => ({ isKilled: random.chance(0.5), forMs: 500 + random.below(6_000) }),
  title: ({ isKilled, forMs }) => `the store ${isKilled ? 'is killed' : 'is paused'} for ${(forMs / 1000).toFixed(1)} s`,
  async run(world, { isKilled, forMs }) {
    const { server } = world.bucket;
    await world.trouble({ name: 'the store is down' }, world.replicas, async () => {
      if (isKilled) await server.kill();
      else await server.pause();
      await delay(forMs);
      if (isKilled) await server.restart();
      else server.resume();
    });
  },
};
