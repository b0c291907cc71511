import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { withServices } from '../../bench/support/service.mjs';
import { share } from './kills.mjs';
import { Ledger } from './ledger.mjs';
import { CONNECTIONS, Load, sendAgain, SOME_LARGE } from './load.mjs';
import { LoopFileSystem } from './loop-file-system.mjs';

const IMAGE_MIB = 1024;
const LONGEST_PAUSE_MS = 50;

/**
 * Cuts the power of the service's file system under load repeatedly. Data that wasn't flushed never reaches the device,
 * and data in memory is lost with the mount. After the cut the service must refuse every new upload until it is killed.
 */
export default function powerCuts({ uploads, cuts, random, progress, variables = {} }) {
  return withServices(async (services) => {
    const fileSystem = new LoopFileSystem(services);
    fileSystem.make(IMAGE_MIB);
    const data = join(fileSystem.path, 'data');
    const ledger = new Ledger({ mayRefuse: true, refusedMayRemain: true });
    // The first boot, with working flushes, creates the files of a new store. Losing these isn't part of the test.
    await (await services.start({ DATA_DIR: data })).end('SIGTERM');
    const start = () => services.start({ DATA_DIR: data, ...variables });
    let service = await start();
    for (let cut = 1; cut <= cuts; cut++) {
      const switchOff = await fileSystem.powerSwitch();
      const load = new Load(service, ledger, random, { inParts: SOME_LARGE });
      const wanted = share(uploads, cut, cuts, random);
      await load.until(() => {
        progress.show(`power cut ${cut} of ${cuts}: ${ledger.acknowledged} acknowledged`);
        return ledger.acknowledged >= wanted;
      });
      await delay(random.below(LONGEST_PAUSE_MS));
      await ledger.duringCut(switchOff);
      const refused = ledger.refused;
      await load.until(() => ledger.refused >= refused + CONNECTIONS);
      await service.end('SIGKILL');
      await load.ended;
      fileSystem.unmount();
      fileSystem.mount();
      ledger.powerIsBack();
      service = await start();
      await sendAgain(service, ledger);
      await ledger.compare(data);
    }
    return { title: 'power cuts, ext4 on a loop device', runs: `${cuts} cuts`, ledger };
  });
}
