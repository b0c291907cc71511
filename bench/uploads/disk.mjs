import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { interruptible } from '../support/interruption.mjs';

const IMAGE_GIB = 6;

const run = async (command, ...parameters) => (await promisify(execFile)(command, parameters)).stdout.trim();

/**
 * Runs `work` on a new ext4 file system if one can be mounted, otherwise in a directory. Afterwards removes the file
 * system or the directory, even if `work` fails. On SIGINT or SIGTERM, aborts `work` and then ends the process. Linux
 * only.
 *
 * @param {string} parent the directory in which the image of the file system, or the directory for `work`, is created.
 * @param {(disk: { path: string, title: string }, signal: AbortSignal) => Promise<boolean>} work
 * @returns {Promise<boolean>} the result of `work`.
 */
export const withDisk = (parent, work) => interruptible((signal) => workOnDisk(parent, work, signal));

async function workOnDisk(parent, work, signal) {
  const home = await mkdtemp(join(resolve(parent), 'load-data-bench-'));
  const [image, mountPoint] = [join(home, 'image'), join(home, 'disk')];
  let mounted = false;
  try {
    await mkdir(mountPoint);
    const obstacle = await mountImage(image, mountPoint).catch(({ message }) => message.trim().replaceAll('\n', ': '));
    mounted = obstacle === undefined;
    if (!mounted) await rm(image, { force: true });
    const kind = await run('findmnt', '--noheadings', '--output', 'FSTYPE', '--target', mountPoint);
    const title = mounted ? `${kind} on a fresh image of ${IMAGE_GIB} GiB in ${parent}` : `${kind}, a directory in ${parent}: ${obstacle}`;
    return await work({ path: mountPoint, title }, signal);
  } finally {
    // If a process still uses the file system, it is unmounted lazily. The image's space is then freed when the last
    // process has stopped using it.
    if (mounted) await run('umount', mountPoint).catch(() => run('umount', '--lazy', mountPoint));
    await rm(home, { recursive: true, force: true });
  }
}

/**
 * Creates an image of a file system, and mounts it.
 *
 * @returns {Promise<string | undefined>} the reason why no image can be mounted; undefined if it was mounted. May also
 *   reject with an error that says the reason.
 */
async function mountImage(image, mountPoint) {
  if (process.getuid?.() !== 0) return 'only root can mount an image';
  await run('fallocate', '--length', `${IMAGE_GIB}GiB`, image);
  // The whole file system is initialized now, so that ext4 defers no initialization into the rounds. The image's blocks
  // aren't discarded, because the file system below would free their space.
  await run('mkfs.ext4', '-q', '-F', '-E', 'nodiscard,lazy_itable_init=0,lazy_journal_init=0', image);
  // The page cache of the file system below is bypassed: a second copy there would add costs that a disk doesn't have.
  const device = await run('losetup', '--find', '--show', '--direct-io=on', image);
  try {
    await run('mount', device, mountPoint);
  } finally {
    // The loop device is freed at once if the mount failed, otherwise when the file system is unmounted.
    await run('losetup', '--detach', device);
  }
  return undefined;
}

/** Writes the file system's cached data to the disk, so that a turn doesn't pay for writes of earlier turns. */
export const settle = (disk) => run('sync', '--file-system', disk.path);
