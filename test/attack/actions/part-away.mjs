import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'part-away',
  isExclusive: true,
  plan: (random) => ({ part: random.pick(['uploads', 'files', 'staging', 'pending']), goneMs: 500 + random.below(2_000) }),
  title: ({ part }) => `${part}/ away and back`,
  async run(world, { part, goneMs }) {
    const { replica, data, model } = world;
    const path = join(data, part);
    const aside = join(data, `.${part}.aside`);
    await world.trouble({ name: `${part}/ is moved away`, remains: true }, [replica], async () => {
      await rename(path, aside);
      await delay(goneMs);
      if (!existsSync(path) && !(await replica.untilNotReady())) model.find('ready', `/health/ready answers 200 for 10 s while ${part}/ is moved away`);
      await world.clearPlaceOf(path, `${part}/`);
      await rename(aside, path);
    });
  },
};
