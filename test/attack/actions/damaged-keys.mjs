import { randomBytes } from 'node:crypto';
import { open, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const REPEATS = 30;
const NOISE_BYTES = 5_000;

const DAMAGES = {
  'random bytes over': async (path) => writeFile(path, randomBytes((await stat(path)).size || NOISE_BYTES)),
  'random bytes within': async (path, random) => {
    const { size } = await stat(path);
    const file = await open(path, 'r+');
    await file.write(randomBytes(NOISE_BYTES), 0, NOISE_BYTES, random.below(Math.max(1, size - NOISE_BYTES)));
    await file.close();
  },
  'truncation of': async (path, random) => truncate(path, random.below((await stat(path)).size || 1)),
  'nothing left of': (path) => truncate(path, 0),
  'removal of': (path) => rm(path),
};

/** Damages the databases of idempotency keys, which the service can rebuild from the index lines of the uploads. */
export default {
  name: 'damaged-keys',
  isExclusive: true,
  plan: (random) => ({ damage: random.pick(Object.keys(DAMAGES)), when: random.pick(['running', 'after SIGKILL', 'after SIGTERM']) }),
  title: ({ damage, when }) => `${damage} idempotency/*.db, ${when}`,
  async run(world, { damage, when }, { random }) {
    const { replica, model } = world;
    await replica.upload(world.keyed(world.someUpload(random)));
    const spoil = async () => {
      const directory = join(world.data, 'idempotency');
      // While the service runs, only the database files are damaged, and not SQLite's logs (`-wal`). Files that aren't
      // part of a database are left alone.
      const isHit = (entry) => entry.isFile() && (when === 'running' ? /\.db$/ : /\.db(-wal)?$/).test(entry.name);
      for (const { name } of (await readdir(directory, { withFileTypes: true })).filter(isHit)) await DAMAGES[damage](join(directory, name), random);
      return () => rm(directory, { recursive: true });
    };
    if (when === 'running') await world.trouble({ name: 'damaged databases of keys' }, [replica], spoil);
    else await world.restart(replica, when.slice('after '.length), { meanwhile: spoil });
    await Promise.all(model.held(random, REPEATS).map((upload) => replica.upload(upload)));
    await replica.upload(world.keyed(world.someUpload(random)));
  },
};
