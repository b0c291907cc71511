import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export const withDiskFaults = (faults) => ({
  NODE_OPTIONS: `--import=${new URL('faulty-disk.mjs', import.meta.url).href}`,
  DISK_FAULTS: JSON.stringify({ seed: 0, ...faults }),
});

/**
 * Turns the disk faults of a running service on and off, by creating and removing a file that the service checks for.
 */
export class FaultSwitch {
  constructor(directory) {
    this.path = join(directory, 'faults-are-on');
  }

  get isOn() {
    return existsSync(this.path);
  }

  turnOn() {
    return writeFile(this.path, '');
  }

  turnOff() {
    return rm(this.path, { force: true });
  }
}
