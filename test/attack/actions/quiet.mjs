import { setTimeout as delay } from 'node:timers/promises';

/** Nothing is done to the service, and every promise must hold. */
export default {
  name: 'quiet',
  isExclusive: true,
  plan: (random) => ({ forMs: 3_000 + random.below(4_000) }),
  title: () => 'nothing',
  run: (world, { forMs }) => delay(forMs),
};
