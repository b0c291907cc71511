import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'failing-disk',
  isExclusive: true,
  plan: (random) => ({ forMs: 500 + random.below(2_000), killed: random.chance(0.4) }),
  title: ({ killed }, { fault }) => `${fault.code} from each ${fault.probability === 1 ? '' : `${1 / fault.probability}th `}${fault.failing.join(', ')}${killed ? ', kill -9' : ''}`,
  async run(world, { forMs, killed }) {
    const { faults, fault, replica } = world;
    await world.trouble({ name: `${fault.code} is injected`, remains: fault.code === 'EIO' }, [replica], async () => {
      await faults.turnOn();
      await delay(forMs);
      if (killed) await world.restart(replica, 'SIGKILL', { meanwhile: () => faults.turnOff() });
      else await faults.turnOff();
    });
  },
};
