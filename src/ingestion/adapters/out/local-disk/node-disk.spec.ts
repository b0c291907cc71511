import { randomBytes } from 'node:crypto';
import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type FileHandle, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NodeDisk } from './node-disk.js';

// Modules of its own: in another spec, a disk that died may have kept blocks for good.
vi.resetModules();
const { BLOCK_BYTES, giveBackBlocks, takeBlocks } = await import('./aligned-blocks.js');

describe('NodeDisk', () => {
  let directory: string;
  const disk = new NodeDisk();
  const at = (name: string) => join(directory, name);

  /** The methods of all open files, to be spied on. Leaves the file `probe`. */
  const methodsOfFiles = async (): Promise<FileHandle> => {
    const probe = await open(at('probe'), 'w');
    await probe.close();
    return Object.getPrototypeOf(probe) as FileHandle;
  };

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'disk-'));
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
    await rm(directory, { recursive: true });
  });

  it('creates files that are requested at the same time, and reports which failed and why', async () => {
    await writeFile(at('taken'), 'other');
    const outcomes = await Promise.allSettled([
      disk.createWith(at('first'), Buffer.from('first bytes')),
      disk.createWith(at('taken'), Buffer.from('bytes')),
      disk.createWith(at('empty'), Buffer.alloc(0)),
      disk.createWith(at('absent/file'), Buffer.from('bytes')),
      disk.createWith(at('last'), Buffer.alloc(100_000, 'x')),
    ]);
    expect(outcomes).toMatchObject([
      { status: 'fulfilled' },
      { status: 'rejected', reason: { code: 'EEXIST' } },
      { status: 'fulfilled' },
      { status: 'rejected', reason: { code: 'ENOENT' } },
      { status: 'fulfilled' },
    ]);
    const names = ['first', 'taken', 'empty', 'last'];
    expect(await Promise.all(names.map((name) => readFile(at(name), 'utf8')))).toEqual(['first bytes', 'other', '', 'x'.repeat(100_000)]);
  });

  it('writes any number of chunks one after another from a position, even empty ones', async () => {
    const file = await disk.create(at('file'));
    await file.write([Buffer.from('0123456789')], 0);
    await file.write([Buffer.alloc(0), ...Array.from({ length: 3_000 }, (_, index) => Buffer.from(String(index % 10))), Buffer.alloc(0)], 5);
    await file.write([], 0);
    await file.close();
    expect(await readFile(at('file'), 'utf8')).toBe(`01234${'0123456789'.repeat(300)}`);
  });

  it('writes the last byte after a write that took all bytes but this one', async () => {
    const methods = await methodsOfFiles();
    const file = await disk.create(at('file'));
    vi.spyOn(methods, 'writev').mockImplementationOnce(async () => {
      await writeFile(at('file'), '01234');
      return { bytesWritten: 5, buffers: [] };
    });
    await file.write([Buffer.from('012'), Buffer.from('345')], 0);
    await file.close();
    expect(await readFile(at('file'), 'utf8')).toBe('012345');
  });

  it.runIf(process.platform === 'linux')('syncs each file system that contains one of the files', async () => {
    const other = await mkdtemp(resolve(directory.startsWith('/dev/shm/') ? 'dist' : '/dev/shm', 'disk-'));
    const commands = await mkdtemp(join(tmpdir(), 'commands-'));
    try {
      const log = join(commands, 'log');
      const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo 'sync (GNU coreutils)'; else echo "$*" >> '${log}'; fi\n`;
      await writeFile(join(commands, 'sync'), script, { mode: 0o755 });
      vi.stubEnv('PATH', commands);
      for (const path of [at('one'), at('two'), join(other, 'three')]) await writeFile(path, 'bytes');
      await disk.syncFiles([at('one'), at('two'), join(other, 'three')]);
      expect(await readFile(log, 'utf8')).toContain(`--file-system ${directory} ${other}\n`);
    } finally {
      await rm(commands, { recursive: true });
      await rm(other, { recursive: true });
    }
  });

  it.runIf(process.platform === 'linux').each([
    ['by O_DSYNC on Linux', 'linux', 0],
    ['by a sync elsewhere', 'darwin', 1],
  ])('makes each write to a synchronized file durable, %s', async (_, platform, syncs) => {
    vi.spyOn(process, 'platform', 'get').mockReturnValue(platform as NodeJS.Platform);
    const sync = vi.spyOn(await methodsOfFiles(), 'datasync');
    const file = await disk.createSynchronized(at('file'));
    await file.write([Buffer.from('one'), Buffer.from('two')], 0);
    const isFlagged = isOpenWith(constants.O_DSYNC, at('file'));
    await file.close();
    expect({ isFlagged, syncs: sync.mock.calls.length }).toEqual({ isFlagged: syncs === 0, syncs });
    expect(await readFile(at('file'), 'utf8')).toBe('onetwo');
  });

  const refusal = Object.assign(new Error('EINVAL: invalid argument, write'), { code: 'EINVAL' });
  it.runIf(process.platform === 'linux').each<[string, { platform?: NodeJS.Platform; first?: () => Promise<unknown> }]>([
    ['past the page cache', {}],
    ['through the page cache where Node has no flag for that', { platform: 'darwin' }],
    ['through the page cache if the file system refuses the first block', { first: () => Promise.reject(refusal) }],
    ['whole if the file system takes only a part of it', { first: () => Promise.resolve({ bytesWritten: 4_096 }) }],
  ])('writes a block %s', async (_, { platform = 'linux', first }) => {
    const methods = await methodsOfFiles();
    const isPossible = await open(at('probe'), constants.O_WRONLY | constants.O_DIRECT).then((direct) => direct.close().then(() => true), () => false);
    vi.spyOn(process, 'platform', 'get').mockReturnValue(platform);
    if (first && isPossible) vi.spyOn(methods, 'writev').mockImplementationOnce(first as FileHandle['writev']);
    const blocks = takeBlocks() ?? [];
    const bytes = randomBytes(2 * BLOCK_BYTES);
    const file = await disk.create(at('file'));
    for (const [index, block] of blocks.slice(0, 2).entries()) {
      block.set(bytes.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES));
      await file.write([block], index * BLOCK_BYTES, true);
    }
    const isDirect = isOpenWith(constants.O_DIRECT, at('file'));
    await file.close();
    giveBackBlocks(blocks);
    expect({ isDirect, isOpen: isOpenWith(0, at('file')) }).toEqual({ isDirect: isPossible && platform === 'linux', isOpen: false });
    expect((await readFile(at('file'))).equals(bytes)).toBe(true);
  });

  it.runIf(process.platform === 'linux')('rejects with the error of a block that the disk has no space for', async () => {
    vi.spyOn(await methodsOfFiles(), 'writev').mockRejectedValueOnce(Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }));
    const blocks = takeBlocks() ?? [];
    const file = await disk.create(at('file'));
    await expect(file.write(blocks.slice(0, 1), 0, true)).rejects.toMatchObject({ code: 'ENOSPC' });
    await file.close();
    giveBackBlocks(blocks);
  });

  it('opens a file only for reading and syncing, or also for writing', async () => {
    await writeFile(at('file'), 'bytes');
    const file = await disk.open(at('file'));
    await file.sync();
    await expect(file.write([Buffer.from('B')], 0)).rejects.toMatchObject({ code: 'EBADF' });
    await file.close();
    const writable = await disk.openWritable(at('file'));
    await writable.write([Buffer.from('B')], 0);
    await writable.close();
    expect(await readFile(at('file'), 'utf8')).toBe('Bytes');
  });

  it.each([
    ['with the system command', undefined],
    ['without a system command', ''],
  ])('syncs files, and skips those that are missing, %s', async (_, path) => {
    if (path !== undefined) vi.stubEnv('PATH', path);
    await disk.createWith(at('file'), Buffer.from('bytes'));
    await expect(disk.syncFiles([at('file'), at('gone'), at('gone/too')])).resolves.toBeUndefined();
    await expect(disk.syncFiles([])).resolves.toBeUndefined();
  });
});

/** Whether this process has a file open with these flags, according to Linux. */
function isOpenWith(flags: number, path: string): boolean {
  return readdirSync('/proc/self/fd').some((fd) => {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== path) return false;
      const own = parseInt(/^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '', 8);
      return (own & flags) === flags;
    } catch {
      // Another thread has closed it meanwhile.
      return false;
    }
  });
}
