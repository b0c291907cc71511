import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MIB = 1024 * 1024;

/** EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH (Linux, fs/ext4/ext4.h): nothing more reaches the device. */
const CUT = `
import fcntl, os, struct, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(directory, 0x8004587D, struct.pack('I', 2))
`;

const run = (command, ...parameters) => execFileSync(command, parameters, { encoding: 'utf8', stdio: 'pipe' }).trim();

/** An ext4 file system of its own, in a file. Needs Linux, root, loop devices, e2fsprogs and Python. */
export class LoopFileSystem {
  #image;
  #device;
  #isMounted = false;
  #isDisposed = false;

  /** @param {import('../../bench/support/service.mjs').Services} services in whose directory it is, and with which it ends */
  constructor(services) {
    services.atEnd(() => this.#dispose());
    this.#image = join(services.directory, 'image');
    /** Where it is mounted. */
    this.path = join(services.directory, 'mount');
  }

  /** Why there can't be one here, in a few words; undefined where there can. */
  static async missing(services) {
    if (process.platform !== 'linux' || process.getuid() !== 0) return 'a loop device needs Linux and root';
    const fileSystem = new LoopFileSystem(services);
    try {
      fileSystem.make(16);
      await (await fileSystem.powerSwitch())();
      return undefined;
    } catch (error) {
      return String(error.message).trim().split('\n').at(-1);
    }
  }

  /** Makes and mounts it, of so many MiB. All that is done is undone in the end, however far it came. */
  make(mebibytes) {
    mkdirSync(this.path);
    writeFileSync(this.#image, '');
    truncateSync(this.#image, mebibytes * MIB);
    run('mkfs.ext4', '-q', '-F', this.#image);
    this.#device = run('losetup', '--find', '--show', this.#image);
    this.mount();
  }

  mount() {
    if (this.#isDisposed) throw new Error('The file system is gone.');
    run('mount', this.#device, this.path);
    this.#isMounted = true;
  }

  /**
   * With it goes all of it that was in memory only.
   *
   * @param {{ lazily?: boolean }} [options] lazily: only its name goes, while something uses it; mounted again, it is the same
   */
  unmount({ lazily = false } = {}) {
    run('umount', ...(lazily ? ['--lazy'] : []), this.path);
    this.#isMounted = false;
  }

  /** Makes it read-only as ext4 does itself when it finds an error; it stays so until it is unmounted and repaired. */
  abort() {
    run('mount', '-o', 'remount,abort,errors=remount-ro', this.path);
  }

  /** Repairs it while it is not mounted. */
  repair() {
    try {
      run('e2fsck', '-y', '-f', this.#device);
    } catch (error) {
      // 1 and 2 say that it had something to repair.
      if (error.status > 2) throw error;
    }
  }

  /** Whether something can be written to it, while nothing has a file open for writing. @param {boolean} is */
  makeWritable(is) {
    run('mount', '-o', is ? 'remount,rw' : 'remount,ro', this.path);
  }

  /** Gives what cuts the power, at once when it is called: the file system fails from then on, until it is mounted anew. */
  async powerSwitch() {
    const switchOff = spawn('python3', ['-c', CUT, this.path], { stdio: ['pipe', 'pipe', 'inherit'] });
    const exited = once(switchOff, 'exit');
    await Promise.race([once(switchOff.stdout, 'data'), exited]);
    return async () => {
      switchOff.stdin.end('\n');
      const [code] = await exited;
      if (code !== 0) throw new Error('The file system could not be shut down.');
    };
  }

  /** Waits for nothing, so that it is never done by half. */
  #dispose() {
    this.#isDisposed = true;
    // Lazily, for something may still look at it.
    if (this.#isMounted) run('umount', '--lazy', this.path);
    this.#isMounted = false;
    if (this.#device) run('losetup', '--detach', this.#device);
    this.#device = undefined;
  }
}
