import { execFileSync } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const CONNECTIONS = 40;

export default {
  name: 'few-descriptors',
  isExclusive: true,
  plan: (random) => ({ spare: 1 + random.below(30), forMs: 1_000 + random.below(2_000) }),
  title: ({ spare }) => `at most ${spare} more descriptors`,
  async run(world, { spare, forMs }, { random }) {
    const { replica } = world;
    await world.trouble({ name: 'no descriptor is free', breaks: true, stalls: true, remains: true }, [replica], async () => {
      const { pid } = replica;
      const limits = await readFile(`/proc/${pid}/limits`, 'latin1');
      const [, usual] = /^Max open files\s+(\d+)/m.exec(limits);
      const open = (await readdir(`/proc/${pid}/fd`)).length;
      const limit = (most) => execFileSync('prlimit', ['--pid', String(pid), `--nofile=${most}:`]);
      limit(open + spare);
      const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => replica.beginUpload(world.someUpload(random), 0.5)));
      await delay(forMs);
      for (const socket of sockets) socket.destroy();
      limit(usual);
    });
  },
};
