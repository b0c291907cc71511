import { setTimeout as delay } from 'node:timers/promises';
import { withServices } from '../../bench/support/service.mjs';
import { withDiskFaults } from './disk-faults.mjs';
import { share } from './kills.mjs';
import { Ledger } from './ledger.mjs';
import { Load } from './load.mjs';

const ROUNDS = 6;
const BOOTS_A_ROUND = 5;
/** The approximate number of file operations in a boot that recovers the uploads in flight at the previous kill. */
const MOST_OPERATIONS = 120;

/**
 * Kills the service under load, and then again and again while it boots: at a random moment, or at a random file
 * operation, which is more likely to hit crash recovery itself.
 */
export default function bootKills({ uploads, random, progress }) {
  return withServices(async (services) => {
    const ledger = new Ledger();
    let cutShort = 0;
    for (let round = 1; round <= ROUNDS; round++) {
      const began = performance.now();
      const service = await services.start();
      const bootMs = performance.now() - began;
      await ledger.compare(services.data);
      const load = new Load(service, ledger, random);
      const wanted = share(uploads, round, ROUNDS, random);
      await load.until(() => ledger.acknowledged >= wanted);
      await service.end('SIGKILL');
      await load.ended;
      for (let boot = 1; boot <= BOOTS_A_ROUND; boot++) {
        progress.show(`kill during boot, round ${round} of ${ROUNDS}: ${ledger.acknowledged} acknowledged, ${cutShort} boots cut short`);
        if (await cutBootShort(services, random, bootMs)) cutShort += 1;
      }
    }
    await (await services.start()).end('SIGTERM');
    await ledger.compare(services.data);
    return { title: 'kill -9 during boot', runs: `${cutShort} boots`, ledger };
  });
}

async function cutBootShort(services, random, bootMs) {
  const byOperation = random.chance(0.6);
  const variables = byOperation ? withDiskFaults({ killAfter: random.below(MOST_OPERATIONS) }) : {};
  const service = services.launch(variables);
  const ready = service.ready.then(() => true, () => false);
  const moment = byOperation ? [] : [delay(random.below(bootMs)).then(() => false)];
  const wasReady = await Promise.race([ready, ...moment]);
  const { signal } = await service.end('SIGKILL');
  if (signal !== 'SIGKILL') throw new Error(`The service ended by itself: ${service.output}`);
  return !wasReady;
}
