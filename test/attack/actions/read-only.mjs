import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'read-only',
  isExclusive: true,
  needs: 'volume',
  plan: (random) => ({ when: random.pick(['running', 'at the start']) }),
  title: ({ when }) => `the volume is read-only, ${when}`,
  async run(world, { when }) {
    const { replica, volume, data, model } = world;
    if (when === 'running') {
      await world.trouble({ name: 'the volume is read-only', remains: true }, [replica], async () => {
        volume.abort();
        if (!(await replica.untilNotReady())) model.find('ready', '/health/ready answers 200 for 10 s on a read-only volume');
        await delay(500);
        const meanwhile = () => {
          volume.unmount();
          volume.repair();
          volume.mount();
        };
        await world.restart(replica, 'SIGKILL', { meanwhile });
      });
      return;
    }
    const meanwhile = () => {
      volume.makeWritable(false);
      return () => volume.makeWritable(true);
    };
    const line = await world.restart(replica, 'SIGTERM', { meanwhile, mayName: [data] });
    if (line === undefined) volume.makeWritable(true);
    else if (!/EROFS|read-only/i.test(line)) model.find('start', `on a read-only volume the service doesn't start, and its line doesn't give the cause: ${line}`);
  },
};
