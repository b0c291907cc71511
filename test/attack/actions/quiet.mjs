import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'quiet',
  isExclusive: true,
  plan: (random) => ({ forMs: 3_000 + random.below(4_000) }),
  title: () => 'nothing',
  run: (world, { forMs }) => delay(forMs),
};
