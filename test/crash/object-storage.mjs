import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { withServices } from '../../bench/support/service.mjs';
import { leftovers } from '../../bench/support/store.mjs';
import { withBucket } from './bucket.mjs';
import { share } from './kills.mjs';
import { Ledger } from './ledger.mjs';
import { Load, sendAgain, SOME_LARGE } from './load.mjs';

const LONGEST_PAUSE_MS = 50;
const STORE_DOWN_MS = { least: 500, spread: 1000 };
const RECOVERY_MS = 10_000;
/**
 * The time after which the bucket should have no leftovers: an upload of a crashed process counts as abandoned after a
 * minute, and each service process sweeps once a minute.
 */
const SWEPT_AFTER_MS = 150_000;
const LOOK_EVERY_MS = 500;

/**
 * Two replicas of the service share a bucket under load. Kills one of them, then the store, then the other replica, and
 * so on. Each is restarted while the load continues. At the end, waits until everything left behind in the bucket has
 * been swept, and compares the bucket with the acknowledged uploads.
 */
export default function objectStorage({ uploads, kills, random, progress }) {
  return withBucket(({ server, variables, directory }) =>
    withServices(async (services) => {
      const ledger = new Ledger({ mayRefuse: true });
      const replicas = ['a', 'b'].map((name) => new Replica(services, { ...variables, DATA_DIR: join(services.directory, name) }, ledger, random));
      await Promise.all(replicas.map((replica) => replica.start()));
      for (let kill = 1; kill <= kills; kill++) {
        const wanted = share(uploads, kill, kills, random);
        const isEnough = () => {
          progress.show(`kill ${kill} of ${kills}: ${ledger.acknowledged} acknowledged, ${ledger.refused} refused`);
          return ledger.acknowledged >= wanted;
        };
        await Promise.all(replicas.map(({ load }) => load.until(isEnough)));
        await delay(random.below(LONGEST_PAUSE_MS));
        if (kill % 2 === 0) {
          await server.kill();
          await delay(STORE_DOWN_MS.least + random.below(STORE_DOWN_MS.spread));
          await server.restart();
        } else {
          const [replica] = replicas.reverse();
          await replica.kill();
          await replica.start();
        }
        await sendAgain(random.pick(replicas).service, ledger, RECOVERY_MS);
      }
      await Promise.all(replicas.map(({ load }) => load.stop()));
      await untilSwept(directory, progress);
      await Promise.all(replicas.map(({ service }) => service.end('SIGTERM')));
      progress.show('object storage: comparing');
      await ledger.compare(directory);
      return { title: 'kill -9 of replicas and of their store', runs: `${kills} kills`, ledger };
    }),
  );
}

class Replica {
  constructor(services, variables, ledger, random) {
    this.services = services;
    this.variables = variables;
    this.ledger = ledger;
    this.random = random;
  }

  async start() {
    this.service = await this.services.start(this.variables);
    this.load = new Load(this.service, this.ledger, this.random, { inParts: SOME_LARGE });
  }

  async kill() {
    this.ledger.mayLeaveRefused(this.service);
    await this.service.end('SIGKILL');
    await this.load.ended;
  }
}

/**
 * Resolves when the bucket has no marker of an upload any more, or after the time in which all markers should have been
 * removed. The comparison afterwards reports those that are left.
 */
export async function untilSwept(directory, progress) {
  const began = performance.now();
  for (;;) {
    const markers = await leftovers(directory);
    const waited = performance.now() - began;
    if (markers.length === 0 || waited > SWEPT_AFTER_MS) return;
    progress.show(`object storage: ${markers.length} markers to sweep, after ${Math.floor(waited / 1000)} s`);
    await delay(LOOK_EVERY_MS);
  }
}
