import { setTimeout as delay } from 'node:timers/promises';

/** The service is killed, or stopped in order, and started again. */
export default {
  name: 'restart',
  isExclusive: true,
  plan: (random) => ({ signal: random.pick(['SIGKILL', 'SIGTERM']), afterMs: random.below(600) }),
  title: ({ signal }) => (signal === 'SIGKILL' ? 'kill -9' : signal),
  async run(world, { signal, afterMs }) {
    await delay(afterMs);
    await world.restart(world.replica, signal);
  },
};
