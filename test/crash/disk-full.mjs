import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withServices } from '../../bench/support/service.mjs';
import { FaultSwitch, withDiskFaults } from './disk-faults.mjs';
import { Ledger } from './ledger.mjs';
import { Load } from './load.mjs';
import { LoopFileSystem } from './loop-file-system.mjs';

const ROUNDS = 4;
const IMAGE_MIB = 96;
const BALLAST_MIB = 16;
const LARGEST_FILE = 600_000;
const ACKNOWLEDGED_A_ROUND = 100;
const REFUSED_A_ROUND = 40;

/**
 * Uploads until the disk is full and the service refuses uploads. Then, in turns, either kills the service, or frees
 * space, waits until the service accepts uploads again, and kills it. The disk is a small file system. If none can be
 * created, writes fail with ENOSPC instead.
 */
export default function diskFull({ random, progress, noFileSystem }) {
  return withServices(async (services) => {
    const disk = noFileSystem ? new RefusingDisk(services) : new SmallDisk(services);
    await disk.prepare();
    const ledger = new Ledger({ mayRefuse: true });
    let service = await services.start(disk.variables);
    for (let round = 1; round <= ROUNDS; round++) {
      const load = new Load(service, ledger, random, { largest: LARGEST_FILE });
      const moreThan = async (acknowledged, refused) => {
        const before = { acknowledged: ledger.acknowledged, refused: ledger.refused };
        await load.until(() => {
          progress.show(`full disk ${round} of ${ROUNDS}: ${ledger.acknowledged} acknowledged, ${ledger.refused} refused`);
          return ledger.acknowledged >= before.acknowledged + acknowledged && ledger.refused >= before.refused + refused;
        });
      };
      await moreThan(ACKNOWLEDGED_A_ROUND, 0);
      await disk.fill();
      await moreThan(0, REFUSED_A_ROUND);
      const goesOn = round % 2 === 1;
      if (goesOn) {
        await disk.free();
        await moreThan(ACKNOWLEDGED_A_ROUND, 0);
      }
      await service.end('SIGKILL');
      await load.ended;
      if (!goesOn) await disk.free();
      service = await services.start(disk.variables);
      await ledger.compare(disk.data);
    }
    return { title: `full disk, ${disk.title}`, runs: `${ROUNDS} kills`, ledger };
  });
}

class SmallDisk {
  title = 'ext4 on a loop device';
  #fileSystem;
  #ballast = [];

  constructor(services) {
    this.#fileSystem = new LoopFileSystem(services);
    this.data = join(this.#fileSystem.path, 'data');
    this.variables = { DATA_DIR: this.data };
  }

  async prepare() {
    this.#fileSystem.make(IMAGE_MIB);
    for (let round = 1; round <= ROUNDS; round++) {
      const path = join(this.#fileSystem.path, `ballast-${round}`);
      await writeFile(path, Buffer.alloc(BALLAST_MIB * 1024 * 1024));
      this.#ballast.push(path);
    }
  }

  /** Does nothing, because the uploads themselves fill the small disk. */
  fill() {}

  free() {
    return rm(this.#ballast.pop());
  }
}

class RefusingDisk {
  title = 'ENOSPC injected';
  #faults;

  constructor(services) {
    this.#faults = new FaultSwitch(services.directory);
    this.data = services.data;
    this.variables = withDiskFaults({ while: this.#faults.path, code: 'ENOSPC', failing: ['write'], probability: 1 });
  }

  prepare() {}

  fill() {
    return this.#faults.turnOn();
  }

  free() {
    return this.#faults.turnOff();
  }
}
