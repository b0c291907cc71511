import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MIB = 1024 * 1024;

/**
 * A Python program that shuts a mounted file system down when it gets a line on standard input: EXT4_IOC_SHUTDOWN with
 * EXT4_GOING_FLAGS_NOLOGFLUSH (Linux, fs/ext4/ext4.h). From then on no more writes reach the device.
 */
const CUT = `
import fcntl, os, struct, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(directory, 0x8004587D, struct.pack('I', 2))
`;

const run = (command, ...parameters) => execFileSync(command, parameters, { encoding: 'utf8', stdio: 'pipe' }).trim();

/** A separate ext4 file system whose device is an image file. Needs Linux, root, loop devices, e2fsprogs and Python. */
export class LoopFileSystem {
  #image;
  #device;
  #isMounted = false;
  #isDisposed = false;

  constructor(services) {
    services.atEnd(() => this.#dispose());
    this.#image = join(services.directory, 'image');
    this.path = join(services.directory, 'mount');
  }

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

  /** Makes and mounts the file system. When the services end, it is removed, even if this call fails halfway. */
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
   * Unmounts the file system. If the power was cut before, data that is only in memory is lost.
   *
   * @param {{ lazily?: boolean }} [options] lazily: removes only the mount point while a process still uses files
   */
  unmount({ lazily = false } = {}) {
    run('umount', ...(lazily ? ['--lazy'] : []), this.path);
    this.#isMounted = false;
  }

  /** Makes the file system read-only, like ext4 after an error. It stays so until it is unmounted and repaired. */
  abort() {
    run('mount', '-o', 'remount,abort,errors=remount-ro', this.path);
  }

  repair() {
    try {
      run('e2fsck', '-y', '-f', this.#device);
    } catch (error) {
      // The exit codes 1 and 2 of e2fsck mean that it has repaired the file system.
      if (error.status > 2) throw error;
    }
  }

  /**
   * Remounts the file system writable or read-only. No file in it may be open for writing.
   *
   * @param {boolean} is whether it is to be writable
   */
  makeWritable(is) {
    run('mount', '-o', is ? 'remount,rw' : 'remount,ro', this.path);
  }

  /**
   * Returns a function that cuts the power of the file system immediately. All operations then fail until it is mounted
   * again.
   */
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

  /** Unmounts and removes the file system. Synchronous, so that a signal can't interrupt it halfway. */
  #dispose() {
    this.#isDisposed = true;
    // The file system is unmounted lazily, because a process may still use it.
    if (this.#isMounted) run('umount', '--lazy', this.path);
    this.#isMounted = false;
    if (this.#device) run('losetup', '--detach', this.#device);
    this.#device = undefined;
  }
}
