import { rename } from 'node:fs/promises';
import { join } from 'node:path';

export default {
  name: 'identity-away',
  isExclusive: true,
  plan: () => ({}),
  title: () => 'identity/ away and back',
  async run(world) {
    const { replica, data, model, identity } = world;
    const path = join(data, 'identity');
    const aside = join(data, '.identity.aside');
    // A current access token is needed before the fault, during which the provider issues no tokens: an earlier jump of
    // the clock may have made the old token invalid.
    await identity.createUser();
    await world.trouble({ name: 'identity/ is moved away' }, [replica], async () => {
      await rename(path, aside);
      const { status, id } = await identity.createUser();
      if (status !== 503) model.find('identity', `create-user was answered with ${status} while identity/ is moved away`);
      if (id) identity.forget(id);
      if (!(await replica.untilNotReady())) model.find('ready', '/health/ready answers 200 for 10 s while identity/ is moved away');
      await world.clearPlaceOf(path, 'identity/');
      await rename(aside, path);
    });
    const { status } = await identity.createUser();
    if (status !== 201) model.find('identity', `create-user was answered with ${status} after identity/ came back`);
  },
};
