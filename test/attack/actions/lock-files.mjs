import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const MOST_WAIT_MS = 60_000;

/** Starts a second process on the same DATA_DIR, which must not become ready. */
export default {
  name: 'lock-files',
  isExclusive: true,
  plan: (random) => ({ lock: random.pick(['there', 'removed', 'removed']) }),
  title: ({ lock }) => `a second process${lock === 'removed' ? ', lock files removed' : ''}`,
  async run(world, { lock }) {
    const { data, replica } = world;
    if (lock === 'there') return second(world);
    const aside = join(data, '.locks.aside');
    await world.trouble({ name: 'the lock files are removed', remains: true }, [replica], async () => {
      await mkdir(aside, { recursive: true });
      const names = (await readdir(data)).filter((name) => name.endsWith('.lock'));
      for (const name of names) await rename(join(data, name), join(aside, name));
      await second(world, ' after the lock files were removed');
      for (const name of names) await rename(join(aside, name), join(data, name));
      await rm(aside, { recursive: true });
    });
  },
};

async function second({ services, model, replica }, when = '') {
  const process = services.launch({ ...replica.service.env, PORT: '0' });
  const ready = process.ready.then(() => ({ isReady: true }), () => ({}));
  const { isReady } = await Promise.race([ready, delay(MOST_WAIT_MS, {})]);
  if (isReady) model.find('lock', `a second process became ready on the same DATA_DIR${when}`);
  const { code } = await process.end('SIGKILL');
  if (isReady) return;
  const lines = process.output.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
  if (code !== 1 || lines.length !== 1 || !lines[0].includes('DATA_DIR')) model.find('lock', `a second process ended with ${code}${when}, and printed: ${process.output.trim()}`);
}
