import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const directory = async (path) => {
  await mkdir(path, { recursive: true });
  await writeFile(join(path, 'part-0000'), 'x');
};
const link = (path) => symlink('/nowhere/at/all', path);
const fifo = (path) => execFileSync('mkfifo', [path]);
const noise = (path) => writeFile(path, 'no marker, and no line');
/**
 * Creates a symbolic link with the form of a marker of the service: its target is JSON. The path in this JSON leads out
 * of DATA_DIR.
 */
const marker = (path) =>
  symlink(JSON.stringify({ content_path: '../outside/precious.csv', segment: 'uploads/kind=historical/date=2026-01-01/x.ndjson', offset: 0 }), path);

const THINGS = {
  'a directory in uploads/': (day) => ({ path: `uploads/kind=historical/date=${day}/_temporary`, make: directory }),
  'a directory like a segment': (day) => ({ path: `uploads/kind=nowcast/date=${day}/${randomUUID()}.ndjson`, make: directory }),
  'a dangling link in uploads/': (day) => ({ path: `uploads/kind=historical/date=${day}/a.ndjson`, make: link }),
  'a pipe in uploads/': (day) => ({ path: `uploads/kind=nowcast/date=${day}/a.ndjson`, make: fifo }),
  'a directory in files/': () => ({ path: 'files/kind=historical/_temporary', make: directory }),
  'a directory in staging/': () => ({ path: `staging/${randomUUID()}`, make: directory }),
  'a dangling link in staging/': () => ({ path: 'staging/link', make: link }),
  'a pipe in staging/': () => ({ path: 'staging/pipe', make: fifo }),
  'a directory in pending/': () => ({ path: 'pending/_temporary', make: directory }),
  'a dangling link in pending/': () => ({ path: `pending/${randomUUID()}`, make: link }),
  'a pipe in pending/': () => ({ path: `pending/${randomUUID()}`, make: fifo }),
  'noise in pending/': () => ({ path: `pending/${randomUUID()}`, make: noise }),
  'noise like a journal': () => ({ path: `pending/${randomUUID()}.journal`, make: noise }),
  'a marker that leads out of DATA_DIR': () => ({ path: `pending/${randomUUID()}`, make: marker }),
  'a file in idempotency/': () => ({ path: 'idempotency/notes.txt', make: noise }),
  'a directory in idempotency/': () => ({ path: 'idempotency/_temporary', make: directory }),
};

/** Puts foreign files into DATA_DIR. The service must ignore them, or refuse to start and name one in one line. */
export default {
  name: 'foreign-files',
  isExclusive: true,
  plan: (random) => {
    const names = Object.keys(THINGS);
    const things = Array.from({ length: 1 + random.below(2) }, () => names.splice(random.below(names.length), 1)[0]);
    return { things, signal: random.chance(0.7) ? 'SIGKILL' : 'SIGTERM' };
  },
  title: ({ things, signal }) => `${things.join(' and ')}, ${signal}`,
  async run(world, { things, signal }) {
    const day = new Date(world.clock.now()).toISOString().slice(0, 10);
    const made = things.map((name) => THINGS[name](day));
    const remove = () => Promise.all(made.map(({ path }) => rm(join(world.data, path), { recursive: true, force: true })));
    world.atEnd(remove);
    const meanwhile = async () => {
      for (const { path, make } of made) {
        await mkdir(dirname(join(world.data, path)), { recursive: true });
        await make(join(world.data, path));
      }
      return remove;
    };
    await world.restart(world.replica, signal, { meanwhile, mayName: made.map(({ path }) => path) });
  },
};
