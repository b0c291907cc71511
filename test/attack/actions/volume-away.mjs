import { rename } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'volume-away',
  isExclusive: true,
  plan: (random) => ({ goneMs: 500 + random.below(2_500) }),
  title: ({ goneMs }) => `DATA_DIR away for ${(goneMs / 1000).toFixed(1)} s`,
  async run(world, { goneMs }) {
    const { replica, volume, data, model, identity } = world;
    const aside = `${data}.aside`;
    const trouble = { name: `DATA_DIR is ${volume ? 'unmounted' : 'moved away'}`, remains: true };
    await world.trouble(trouble, [replica], async (span) => {
      if (volume) volume.unmount({ lazily: true });
      else await rename(data, aside);
      span.refusesFrom = performance.now();
      const saysSo = await replica.untilNotReady();
      if (!saysSo) model.find('ready', `/health/ready answers 200 for 10 s while ${trouble.name}`);
      await delay(goneMs);
      const { status, id } = await identity.createUser().catch(() => ({}));
      if (status === 201) {
        model.find('identity', `create-user was answered with 201 while ${trouble.name}`);
        identity.forget(id);
      }
      await world.clearPlaceOf(data, 'DATA_DIR');
      span.refusesUntil = performance.now();
      if (volume) volume.mount();
      else await rename(aside, data);
    });
  },
};
