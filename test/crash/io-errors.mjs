import { withServices } from '../../bench/support/service.mjs';
import { FaultSwitch, withDiskFaults } from './disk-faults.mjs';
import { share } from './kills.mjs';
import { Ledger } from './ledger.mjs';
import { Load, SOME_LARGE } from './load.mjs';

const ROUNDS = 6;
const REFUSED_A_ROUND = 30;
const ACKNOWLEDGED_AFTERWARDS = 20;

/**
 * Makes random writes and flushes of the service fail with EIO under load. In some rounds, ends the errors and lets the
 * service continue for a while. Then kills the service, restarts it, and compares the store with the acknowledged
 * uploads.
 */
export default function ioErrors({ uploads, random, progress }) {
  return withServices(async (services) => {
    const ledger = new Ledger({ mayRefuse: true });
    const faults = new FaultSwitch(services.directory);
    const start = () => {
      const failing = random.pick([['write'], ['flush'], ['write', 'flush']]);
      const injected = { while: faults.path, code: 'EIO', failing, probability: 0.02, seed: random.below(2 ** 31) };
      return services.start(withDiskFaults(injected));
    };
    let service = await start();
    for (let round = 1; round <= ROUNDS; round++) {
      const load = new Load(service, ledger, random, { inParts: SOME_LARGE });
      const wanted = share(uploads, round, ROUNDS, random);
      const refused = ledger.refused + REFUSED_A_ROUND;
      await faults.turnOn();
      await load.until(() => {
        progress.show(`EIO, round ${round} of ${ROUNDS}: ${ledger.acknowledged} acknowledged, ${ledger.refused} refused`);
        return ledger.acknowledged >= wanted && ledger.refused >= refused;
      });
      if (random.chance(0.5)) {
        await faults.turnOff();
        const before = ledger.acknowledged;
        await load.until(() => ledger.acknowledged >= before + ACKNOWLEDGED_AFTERWARDS);
      }
      await service.end('SIGKILL');
      await load.ended;
      await faults.turnOff();
      service = await start();
      await ledger.compare(services.data);
    }
    return { title: 'EIO from writes and flushes', runs: `${ROUNDS} kills`, ledger };
  });
}
