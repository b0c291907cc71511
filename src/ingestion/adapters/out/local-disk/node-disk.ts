import { execFile } from 'node:child_process';
import { constants, fstatSync } from 'node:fs';
import { access, type FileHandle, lstat, mkdir, open, opendir, readdir, readlink, realpath, rename, rm, rmdir, statfs, symlink, unlink } from 'node:fs/promises';
import { release } from 'node:os';
import { dirname, sep } from 'node:path';
import { promisify } from 'node:util';
import { type DataDirectoryLock, lockDataDirectory } from '../../../../common/data-directory/data-directory-lock.js';
import { type FileIdentity, fileIdentity, placeCheck, statUnlessAbsent } from '../../../../common/data-directory/file-identity.js';
import { assertDirectory } from '../../../../common/data-directory/make-directories.js';
import { hasCode, isCoded } from '../../../../common/error-code.js';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
import { type DirectoryOrigin, Disk, type DiskFile, type DiskSpace } from './disk.js';
import { LostWritesError, NotAFileError, unlessAbsent } from './disk-error.js';
import { FileMaker } from './file-maker.js';

const run = promisify(execFile);
const NAMES_AT_ONCE = 1_000;
const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;

/** The file system of the machine. */
export class NodeDisk extends Disk {
  private readonly fileMaker = new FileMaker();

  override lock(directory: string, name: string): Promise<DataDirectoryLock> {
    return lockDataDirectory(directory, name, { create: false });
  }

  override async create(path: string): Promise<DiskFile> {
    return new NodeDiskFile(await open(path, NEW_FILE));
  }

  override async createSynchronized(path: string): Promise<DiskFile> {
    // macOS doesn't flush the drive's cache for O_DSYNC, and Windows has no such flag.
    const isFlagEnough = process.platform === 'linux';
    return new NodeDiskFile(await open(path, isFlagEnough ? NEW_FILE | constants.O_DSYNC : NEW_FILE), 0, !isFlagEnough);
  }

  override async open(path: string): Promise<DiskFile> {
    return openRegular(path, constants.O_RDONLY);
  }

  override async openWritable(path: string): Promise<DiskFile> {
    return openRegular(path, constants.O_RDWR | constants.O_NOFOLLOW);
  }

  override rename(from: string, to: string): Promise<void> {
    return rename(from, to);
  }

  override async remove(path: string): Promise<void> {
    await unlink(path).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error;
    });
  }

  override removeTree(path: string): Promise<void> {
    return rm(path, { recursive: true, force: true });
  }

  override async removeEmptyDirectory(path: string): Promise<void> {
    await rmdir(path).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST')) throw error;
    });
  }

  override makeDirectory(path: string): Promise<void> {
    return mkdir(path);
  }

  override readDirectory(path: string): Promise<string[]> {
    return readdir(path);
  }

  override async *readLargeDirectory(path: string): AsyncGenerator<readonly string[]> {
    let names: string[] = [];
    for await (const { name } of await opendir(path, { bufferSize: NAMES_AT_ONCE })) {
      names.push(name);
      if (names.length < NAMES_AT_ONCE) continue;
      yield names;
      names = [];
    }
    yield names;
  }

  override async syncDirectory(path: string): Promise<void> {
    const directory = await open(path, constants.O_RDONLY);
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }

  override link(target: string, path: string): Promise<void> {
    return symlink(target, path);
  }

  override readLink(path: string): Promise<string> {
    return readlink(path);
  }

  override identityOf(path: string): FileIdentity | undefined {
    return fileIdentity(path);
  }

  override placeCheck(path: string, file: FileIdentity): () => boolean {
    return placeCheck(path, file);
  }

  override originOf(path: string): DirectoryOrigin | undefined {
    const stats = statUnlessAbsent(path);
    return stats && { device: stats.dev, inode: stats.ino, bornAt: stats.birthtimeNs };
  }

  override changedAt(path: string): bigint | undefined {
    return statUnlessAbsent(path)?.mtimeNs;
  }

  override assertDirectory(path: string): Promise<void> {
    return new Promise((resolve) => {
      assertDirectory(path);
      resolve();
    });
  }

  override async isNameTaken(path: string): Promise<boolean> {
    return (await unlessAbsent(lstat(path))) !== undefined;
  }

  override async isBelow(directory: string, ancestor: string): Promise<boolean> {
    const [path, above] = await Promise.all([unlessAbsent(realpath(directory)), realpath(ancestor)]);
    return path === undefined || path === above || path.startsWith(`${above}${sep}`);
  }

  override assertWritable(directory: string): Promise<void> {
    return access(directory, constants.W_OK | constants.X_OK);
  }

  override async plainFileSize(path: string): Promise<number | undefined> {
    const stats = await unlessAbsent(lstat(path));
    return stats?.isFile() ? stats.size : undefined;
  }

  override async spaceAt(path: string): Promise<DiskSpace> {
    const { bavail, blocks, bsize, ffree, files } = await statfs(path);
    return { free: bavail * bsize, size: blocks * bsize, freeFiles: ffree, files };
  }

  override createWith(path: string, bytes: Uint8Array, device?: bigint): Promise<void> {
    return this.fileMaker.make(path, bytes, device);
  }

  override lossCount(): number {
    return losses;
  }

  override async syncFiles(paths: readonly string[]): Promise<void> {
    const directories = onePerFileSystem(paths.map(dirname));
    if (directories.length === 0 || (await syncFileSystems(directories))) return;
    await this.syncEach(paths);
  }
}

function onePerFileSystem(directories: readonly string[]): string[] {
  const byDevice = new Map<bigint, string>();
  for (const directory of new Set(directories)) {
    const device = fileIdentity(directory)?.dev;
    if (device !== undefined) byDevice.set(device, directory);
  }
  return [...byDevice.values()];
}

/** Opens a regular file. Rejects with NotAFileError for anything else, and at once for a FIFO. */
async function openRegular(path: string, flags: number): Promise<DiskFile> {
  let handle: FileHandle;
  try {
    handle = await open(path, flags | constants.O_NONBLOCK);
  } catch (error) {
    if (hasCode(error, 'EISDIR', 'ENXIO', 'ELOOP', 'ENODEV')) throw new NotAFileError(path);
    throw error;
  }
  // Synchronous: `fstatSync` of an open file doesn't block, and costs less than a call in another thread.
  const stats = fstatSync(handle.fd);
  if (stats.isFile()) return new NodeDiskFile(handle, stats.size);
  await handle.close();
  throw new NotAFileError(path);
}

let syncReportsFailures: Promise<boolean> | undefined;

/** Only the `sync` command of GNU coreutils reports failed writes, and only on Linux 5.8 or later. */
async function findOutWhetherSyncReportsFailures(): Promise<boolean> {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  if (process.platform !== 'linux' || major < 5 || (major === 5 && minor < 8)) return false;
  const { stdout } = await run('sync', ['--version']);
  return stdout.includes('GNU coreutils');
}

let losses = 0;
/**
 * Runs one `sync` command at a time. Of several at once, Linux would report a failed write to only one, and the others
 * could succeed before the loss is counted.
 */
const commands = new OneAtATime();

/** Runs the `sync` command, because Node.js has no API for syncfs. Resolves to false if it can't be used. */
async function syncFileSystems(directories: readonly string[]): Promise<boolean> {
  try {
    syncReportsFailures ??= findOutWhetherSyncReportsFailures();
    if (!(await syncReportsFailures)) return false;
  } catch {
    syncReportsFailures = undefined;
    return false;
  }
  try {
    await commands.run(() => run('sync', ['--file-system', ...directories]));
    return true;
  } catch (error) {
    if (couldNotStart(error)) return false;
    losses += 1;
    throw new LostWritesError(error);
  }
}

/** The `code` is a text such as `ENOENT` if the command wasn't started; otherwise it is the exit code, or null. */
const couldNotStart = isCoded;

class NodeDiskFile implements DiskFile {
  private own: FileIdentity | undefined;
  /** The same file, opened to write blocks past the page cache; undefined if its file system can't do that. */
  private direct: Promise<FileHandle | undefined> | undefined;

  constructor(
    private readonly handle: FileHandle,
    private readonly length = 0,
    private readonly syncsWrites = false,
  ) {}

  async read(buffer: Uint8Array, position: number): Promise<number> {
    let done = 0;
    while (done < buffer.length) {
      const { bytesRead } = await this.handle.read(buffer, done, buffer.length - done, position + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return done;
  }

  async write(chunks: readonly Uint8Array[], position: number, areBlocks = false): Promise<void> {
    let left = 0;
    for (const { length } of chunks) left += length;
    if (areBlocks && (await this.writeDirectly(chunks, position, left))) return;
    for (let rest = chunks, at = position; left > 0; ) {
      const { bytesWritten } = await this.handle.writev(rest, at);
      at += bytesWritten;
      left -= bytesWritten;
      if (left > 0) rest = behind(rest, bytesWritten);
    }
    if (this.syncsWrites) await this.sync();
  }

  /**
   * Writes blocks without a copy in the page cache, which takes less processor time and leaves less to sync. Resolves
   * to false if they must all be written in the ordinary way: some file systems refuse O_DIRECT only then.
   */
  private async writeDirectly(blocks: readonly Uint8Array[], position: number, length: number): Promise<boolean> {
    const direct = await (this.direct ??= openDirect(this.handle));
    if (!direct) return false;
    try {
      return (await direct.writev(blocks, position)).bytesWritten === length;
    } catch (error) {
      if (!hasCode(error, 'EINVAL')) throw error;
      return false;
    }
  }

  sync(): Promise<void> {
    return this.handle.datasync();
  }

  truncate(length: number): Promise<void> {
    return this.handle.truncate(length);
  }

  size(): Promise<number> {
    return Promise.resolve(this.length);
  }

  async standsAt(path: string): Promise<boolean> {
    // This stat is synchronous: waiting for a thread of the thread pool while a sync is running would cost far more.
    const named = statUnlessAbsent(path);
    const own = (this.own ??= await this.handle.stat({ bigint: true }));
    return named?.ino === own.ino && named.dev === own.dev;
  }

  async close(): Promise<void> {
    const direct = await this.direct;
    await Promise.all([this.handle.close(), direct?.close()]);
  }
}

/** Opens a file once more, for writes past the page cache. Only Linux can do this, and not on all file systems. */
async function openDirect({ fd }: FileHandle): Promise<FileHandle | undefined> {
  if (process.platform !== 'linux') return undefined;
  // By its descriptor, because its name may have changed. After any error, the blocks are written in the ordinary way.
  return open(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_DIRECT).catch(() => undefined);
}

function behind(chunks: readonly Uint8Array[], count: number): Uint8Array[] {
  let before = count;
  return chunks
    .map((chunk) => {
      const rest = chunk.subarray(before);
      before = Math.max(0, before - chunk.length);
      return rest;
    })
    .filter(({ length }) => length > 0);
}
