import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../servers/server.mjs';
import { FaultSwitch, withDiskFaults } from '../crash/disk-faults.mjs';
import { LoopFileSystem } from '../crash/loop-file-system.mjs';
import { Clock } from './clock.mjs';
import { ADMIN_SECRET, IdentityTraffic } from './identity.mjs';
import { Model } from './model.mjs';
import { HistoryOver, Replica, World } from './world.mjs';

/** The size of a volume's image. The image is sparse: it takes only as much space as is written to it. */
const IMAGE_MIB = 6 * 1024;
const MOST_REPEATED = 60;

/** A world with one service and its data on the local disk: in a directory or on a separate volume. */
export class DiskWorld extends World {
  static async make({ services, random, seeds, noFileSystem, variables }) {
    const clock = new Clock(join(services.directory, 'clock'));
    const world = new DiskWorld({ services, random, model: new Model(clock) });
    world.clock = clock;
    world.seeds = seeds;
    const onVolume = random.chance(0.5) && !noFileSystem;
    if (onVolume) {
      world.volume = new LoopFileSystem(services);
      world.volume.make(IMAGE_MIB);
    }
    world.title = onVolume ? 'DATA_DIR is a volume' : 'DATA_DIR is a directory';
    world.data = world.volume?.path ?? join(services.directory, 'data');
    world.sentinel = join(services.directory, 'outside');
    await mkdir(world.sentinel);
    await writeFile(join(world.sentinel, 'precious.csv'), 'precious\n');
    world.faults = new FaultSwitch(services.directory);
    const fault = random.pick([
      { code: 'EIO', failing: ['write'], probability: 0.05 },
      { code: 'EIO', failing: ['flush'], probability: 0.05 },
      { code: 'ENOSPC', failing: ['write'], probability: 1 },
    ]);
    world.fault = fault;
    const faulty = withDiskFaults({ while: world.faults.path, seed: random.below(2 ** 31), ...fault });
    const preloads = [Clock.preload, ...(variables?.preload ?? [])].map((url) => ` --import=${url}`).join('');
    world.replica = new Replica(world, await freePort(), {
      DATA_DIR: world.data,
      EMBEDDED_ADMIN_SECRET: ADMIN_SECRET,
      ...clock.variables,
      ...faulty,
      NODE_OPTIONS: `${faulty.NODE_OPTIONS}${preloads}`,
      ...variables?.values,
    });
    return world;
  }

  async begin() {
    const { replica, model } = this;
    await this.watchLive([replica]);
    const trouble = model.begin({ name: 'the first start', breaks: true, stalls: true });
    await replica.start();
    model.end(trouble);
    this.startTraffic(replica, this.seeds);
    this.identity = new IdentityTraffic(replica.port, model, this.seeds());
  }

  someReplica() {
    return this.replica;
  }

  ensureUp() {
    return this.replica.ensureUp();
  }

  async finish() {
    const { replica, model, random, identity } = this;
    await this.quieten();
    await identity.stop();
    await Promise.all(model.held(random, MOST_REPEATED).map((upload) => replica.upload(upload)));
    await this.restart(replica, random.pick(['SIGKILL', 'SIGTERM']));
    await Promise.all(model.held(random, MOST_REPEATED).map((upload) => replica.upload(upload)));
    await identity.compare();
    await this.endLive();
    const trouble = model.begin({ name: 'the end', breaks: true, stalls: true });
    await replica.stop('SIGTERM');
    model.end(trouble);
    const lines = await model.compare(this.data);
    await this.#verify();
    await this.#checkSentinel();
    return lines;
  }

  /** Runs in place of `finish` when the history can't continue because the service doesn't start. */
  async giveUp() {
    await this.quieten().catch((error) => {
      if (!(error instanceof HistoryOver)) throw error;
    });
    await this.identity?.stop();
    await this.endLive();
    await this.#checkSentinel();
  }

  async #verify() {
    try {
      await promisify(execFile)(process.execPath, ['dist/commands/verify-store.js', this.data]);
    } catch ({ code, stdout, stderr }) {
      this.model.find('whole', `verify:store ends with ${code}: ${`${stdout}${stderr}`.trim().split('\n').slice(0, 3).join(' / ')}`);
    }
  }

  async #checkSentinel() {
    const names = await readdir(this.sentinel);
    const text = await readFile(join(this.sentinel, 'precious.csv'), 'utf8').catch(() => undefined);
    if (text !== 'precious\n' || names.length !== 1) this.model.find('outside', `a directory outside DATA_DIR has changed: ${names.join(', ')}`);
  }

  /** Moves aside what the service wrote in place of a missing folder. Doesn't remove it: more may be written. */
  async clearPlaceOf(path, what) {
    if (!existsSync(path)) return;
    const entries = await readdir(path, { recursive: true });
    if (entries.length > 0) this.model.find('outside', `while ${what} was missing, the service wrote ${entries.length} entries in its place, for example ${entries[0]}`);
    const aside = await mkdtemp(join(dirname(path), '.intruder-'));
    if (path !== this.volume?.path) await rename(path, join(aside, 'all'));
    else for (const name of await readdir(path)) await rename(join(path, name), join(aside, name));
  }
}
