import { setTimeout as delay } from 'node:timers/promises';

/** Pauses a replica (SIGSTOP), so that the others may consider it crashed. */
export default {
  name: 'replica-pause',
  isExclusive: true,
  plan: (random) => ({ which: random.below(6), forMs: random.pick([2_000, 5_000, 15_000]) }),
  title: ({ forMs }) => `a replica is paused for ${forMs / 1000} s`,
  async run(world, { which, forMs }) {
    const replica = world.replicas[which % world.replicas.length];
    await world.trouble({ name: 'a replica is paused', stalls: true, breaks: true }, [replica], async () => {
      replica.service.child.kill('SIGSTOP');
      await delay(forMs);
      replica.service.child.kill('SIGCONT');
    });
  },
};
