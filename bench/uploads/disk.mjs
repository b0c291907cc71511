import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { interruptible } from '../support/interruption.mjs';

const IMAGE_GIB = 6;

const run = async (command, ...parameters) => (await promisify(execFile)(command, parameters)).stdout.trim();

/**
 * Gives work a fresh journaled file system, where that can be mounted, otherwise a directory. Takes it away whatever
 * happens; when interrupted, aborts the work and ends the process afterwards. Linux only.
 *
 * @param {string} parent the directory that the image, or the directory, is made in.
 * @param {(disk: { path: string, title: string }, signal: AbortSignal) => Promise<boolean>} work
 * @returns {Promise<boolean>}
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
    // Lazily where somebody still looks at it; the image goes with the last who does.
    if (mounted) await run('umount', mountPoint).catch(() => run('umount', '--lazy', mountPoint));
    await rm(home, { recursive: true, force: true });
  }
}

/** @returns {Promise<string | undefined>} why it isn't mounted, if so; also rejects with why. */
async function mountImage(image, mountPoint) {
  if (process.getuid?.() !== 0) return 'only root can mount an image';
  await run('fallocate', '--length', `${IMAGE_GIB}GiB`, image);
  // All at once: neither given back to the file system beneath, nor put off to the rounds.
  await run('mkfs.ext4', '-q', '-F', '-E', 'nodiscard,lazy_itable_init=0,lazy_journal_init=0', image);
  // Past the page cache of the file system beneath: a copy there would cost what a disk doesn't.
  const device = await run('losetup', '--find', '--show', '--direct-io=on', image);
  try {
    await run('mount', device, mountPoint);
  } finally {
    // While it is mounted this only says that unmounting frees it.
    await run('losetup', '--detach', device);
  }
  return undefined;
}

/** Writes out what is still in memory, so that nobody pays for what was before. */
export const settle = (disk) => run('sync', '--file-system', disk.path);
