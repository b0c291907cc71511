import { execFileSync } from 'node:child_process';
import { rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'full-disk',
  isExclusive: true,
  needs: 'volume',
  plan: (random) => ({ forMs: 2_000 + random.below(5_000), killed: random.chance(0.3) }),
  title: ({ killed }) => `the volume is full${killed ? ', kill -9' : ''}`,
  async run(world, { forMs, killed }) {
    const { replica, data } = world;
    await world.trouble({ name: 'the volume is full' }, [replica], async () => {
      const ballast = await fill(data);
      const free = () => Promise.all(ballast.map((path) => rm(path)));
      await delay(forMs);
      if (killed) await world.restart(replica, 'SIGKILL', { meanwhile: free });
      else await free();
    });
  },
};

/**
 * Fills a disk with files. The first, third and so on take all space that is free, the others half of it.
 *
 * @returns {Promise<string[]>} the paths of these files.
 */
async function fill(directory) {
  const paths = [];
  for (let turn = 0; turn < 40; turn++) {
    const { bfree, bsize } = await statfs(directory);
    if (bfree === 0) break;
    const path = join(directory, `.ballast-${turn}`);
    paths.push(path);
    const blocks = turn % 2 === 0 ? bfree : Math.ceil(bfree / 2);
    try {
      execFileSync('fallocate', ['--length', String(blocks * bsize), path], { stdio: 'pipe' });
    } catch {
      // The allocation may fail, because the file's metadata needs space too, or because another process has taken the
      // space meanwhile.
    }
  }
  return paths;
}
