import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { leftovers } from '../../bench/support/store.mjs';
import { untilSwept } from '../crash/object-storage.mjs';
import { startFaultProxy } from '../servers/fault-proxy.mjs';
import { freePort } from '../servers/server.mjs';
import { Clock } from './clock.mjs';
import { ADMIN_SECRET } from './identity.mjs';
import { Model } from './model.mjs';
import { Replica, World } from './world.mjs';

/**
 * Shorter than the delay of the fault 'delays writes by 8 s', so that the client gets its answer before the late
 * request arrives at the store.
 */
const STORAGE_TIMEOUT_MS = 5_000;
/** How long an upload of a crashed process may hold its idempotency key, with a margin. */
const HOLDS_KEY_MS = 90_000;
const MOST_REPEATED = 40;
/**
 * The clock that decides when idempotency keys expire: that of the store, which never jumps, and not that of a replica.
 */
const TRUE_TIME = { now: () => Date.now(), jumpsSince: () => 0 };

/**
 * A world with two or three replicas of the service on one bucket, each with its own clock and its own proxy to the
 * store.
 */
export class BucketWorld extends World {
  proxies = [];

  static async make({ services, random, seeds, bucket, progress, variables }) {
    const world = new BucketWorld({ services, random, model: new Model(TRUE_TIME, { holdsKeyMs: HOLDS_KEY_MS }) });
    world.seeds = seeds;
    world.bucket = bucket;
    world.progress = progress;
    world.replicas = [];
    const names = ['a', 'b', 'c'].slice(0, 2 + random.below(2));
    for (const name of names) {
      const proxy = await startFaultProxy(bucket.server.endpoint);
      world.proxies.push(proxy);
      const clock = new Clock(join(services.directory, `clock-${name}`));
      const directory = join(services.directory, name);
      await mkdir(directory);
      const replica = new Replica(world, await freePort(), {
        ...bucket.variables,
        S3_ENDPOINT: proxy.endpoint,
        STORAGE_TIMEOUT_MS: String(STORAGE_TIMEOUT_MS),
        DATA_DIR: directory,
        EMBEDDED_ADMIN_SECRET: ADMIN_SECRET,
        ...clock.variables,
        NODE_OPTIONS: [Clock.preload, ...(variables?.preload ?? [])].map((url) => `--import=${url}`).join(' '),
        ...variables?.values,
      });
      Object.assign(replica, { proxy, clock, name });
      world.replicas.push(replica);
    }
    world.title = `${names.length} replicas on a bucket`;
    return world;
  }

  async begin() {
    await this.watchLive(this.replicas);
    const trouble = this.model.begin({ name: 'the first start', breaks: true, stalls: true });
    await Promise.all(this.replicas.map((replica) => replica.start()));
    this.model.end(trouble);
    for (const replica of this.replicas) this.startTraffic(replica, this.seeds);
  }

  someReplica() {
    return this.random.pick(this.replicas);
  }

  async ensureUp() {
    for (const replica of this.replicas) await replica.ensureUp();
  }

  async finish() {
    const { replicas, model, random, bucket, progress } = this;
    await this.quieten();
    await Promise.all(model.held(random, MOST_REPEATED).map((upload) => this.someReplica().upload(upload)));
    await this.endLive();
    if ((await leftovers(bucket.directory)).length > 0) await untilSwept(bucket.directory, progress);
    const trouble = model.begin({ name: 'the end', breaks: true, stalls: true });
    await Promise.all(replicas.map((replica) => replica.stop('SIGTERM')));
    model.end(trouble);
    await model.compare(bucket.directory);
    await this.#verify();
  }

  async giveUp() {
    await this.quieten();
    await this.endLive();
  }

  async dispose() {
    for (const proxy of this.proxies) await proxy.close();
  }

  async #verify() {
    const env = { PATH: process.env.PATH, ...this.bucket.variables, DATA_DIR: join(this.services.directory, 'a') };
    try {
      await promisify(execFile)(process.execPath, ['dist/commands/verify-store.js'], { env });
    } catch ({ code, stdout, stderr }) {
      this.model.find('whole', `verify:store ends with ${code}: ${`${stdout}${stderr}`.trim().split('\n').slice(0, 3).join(' / ')}`);
    }
  }
}
