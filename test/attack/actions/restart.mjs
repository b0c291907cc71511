import { setTimeout as delay } from 'node:timers/promises';

const restart = (name, signal, title) => ({
  name,
  isExclusive: true,
  plan: (random) => ({ afterMs: random.below(600) }),
  title: () => title,
  async run(world, { afterMs }) {
    await delay(afterMs);
    await world.restart(world.replica, signal);
  },
});

export const kill = restart('kill', 'SIGKILL', 'kill -9');
export const stop = restart('stop', 'SIGTERM', 'SIGTERM');
