import { setTimeout as delay } from 'node:timers/promises';
import { withServices } from '../../bench/support/service.mjs';
import { Ledger } from './ledger.mjs';
import { Load, sendAgain, SOME_LARGE } from './load.mjs';

const LONGEST_PAUSE_MS = 50;

/**
 * Kills the service under load repeatedly. Compares the store with the acknowledged uploads after each following boot.
 */
export default function kills({ uploads, kills, random, progress }) {
  return withServices(async (services) => {
    const ledger = new Ledger();
    let service = await services.start();
    for (let kill = 1; kill <= kills; kill++) {
      const load = new Load(service, ledger, random, { inParts: SOME_LARGE });
      const wanted = share(uploads, kill, kills, random);
      await load.until(() => {
        progress.show(`kill ${kill} of ${kills}: ${ledger.acknowledged} acknowledged`);
        return ledger.acknowledged >= wanted;
      });
      await delay(random.below(LONGEST_PAUSE_MS));
      await service.end('SIGKILL');
      await load.ended;
      service = await services.start();
      await sendAgain(service, ledger);
      await ledger.compare(services.data);
    }
    return { title: 'kill -9 under load', runs: `${kills} kills`, ledger };
  });
}

/** How many uploads must have been acknowledged in total before a given crash. */
export const share = (uploads, crash, crashes, random) =>
  Math.ceil(crash === crashes ? uploads : (uploads / crashes) * (crash - random.next()));
