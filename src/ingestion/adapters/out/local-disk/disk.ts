import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, type FileHandle, lstat, mkdir, open, readdir, readlink, realpath, rename, rm, symlink, unlink } from 'node:fs/promises';
import { release } from 'node:os';
import { dirname, sep } from 'node:path';
import { promisify } from 'node:util';
import { type DataDirectoryLock, lockDataDirectory } from '../../../../common/data-directory/data-directory-lock.js';
import { type FileIdentity, fileIdentity, isSameFile, statUnlessAbsent } from '../../../../common/data-directory/file-identity.js';
import { assertDirectory } from '../../../../common/data-directory/make-directories.js';
import { allDone } from './all-done.js';
import { hasCode, NotAFileError, unlessAbsent } from './disk-error.js';
import { FileMaker } from './file-maker.js';
import { SelfCheckingDatabase } from './self-checking-database.js';

const run = promisify(execFile);
const SYNCS_AT_ONCE = 16;
const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;

/** A file that is open. Positions and lengths are bytes. */
export interface DiskFile {
  /** Fills the buffer from the position on; resolves to how much there was, less than asked for only at the end. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** Writes all of the chunks, one behind the other; when it rejects, any of their bytes may have been written. */
  write(chunks: readonly Uint8Array[], position: number): Promise<void>;
  /** Makes the file's bytes and length durable (fdatasync). */
  sync(): Promise<void>;
  truncate(length: number): Promise<void>;
  size(): Promise<number>;
  /** Whether this is the file that a path names now. */
  standsAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}

/** A directory by its inode and birth, which stay when its file system is mounted again with another device number. */
export interface DirectoryOrigin {
  readonly device: bigint;
  readonly inode: bigint;
  /** Nanoseconds since 1970. */
  readonly bornAt: bigint;
}

/**
 * What the local-disk adapter asks of a file system, and nothing more, so that a test can make any single operation
 * fail or never end. All paths are absolute. Everything rejects with what Node.js throws (`code`: `ENOENT`, ...).
 * Names made, renamed or removed are durable once their directory is synced, not before.
 */
export abstract class Disk {
  /** Takes the lock of a directory that exists, which ends with the process (see `lockDataDirectory`). */
  abstract lock(directory: string, name: string): Promise<DataDirectoryLock>;
  /** Makes a file; `EEXIST` when the name is taken. */
  abstract create(path: string): Promise<DiskFile>;
  /** Makes a file each write to which is durable when it resolves (O_DSYNC); `EEXIST` when the name is taken. */
  abstract createSynchronized(path: string): Promise<DiskFile>;
  /** Opens a regular file that exists, to read or sync it; needs no right to write. Rejects with `NotAFileError` for anything else. */
  abstract open(path: string): Promise<DiskFile>;
  /** Opens a regular file that exists, also to write to it. Follows no link. Rejects with `NotAFileError` for anything else. */
  abstract openWritable(path: string): Promise<DiskFile>;
  abstract rename(from: string, to: string): Promise<void>;
  /** Removes the name of anything but a directory; also resolves when there is none. */
  abstract remove(path: string): Promise<void>;
  /** Removes a name, with all that is under it; also resolves when there is none. */
  abstract removeTree(path: string): Promise<void>;
  /** Makes one directory; `EEXIST` when the name is taken. */
  abstract makeDirectory(path: string): Promise<void>;
  abstract readDirectory(path: string): Promise<string[]>;
  /** Makes the names in a directory durable. */
  abstract syncDirectory(path: string): Promise<void>;
  /** Makes a symbolic link; `EEXIST` when the name is taken. */
  abstract link(target: string, path: string): Promise<void>;
  abstract readLink(path: string): Promise<string>;
  /** The device and inode of what a path names, links followed; undefined where there is nothing. Synchronous, as it costs less than a turn. */
  abstract identityOf(path: string): FileIdentity | undefined;
  /** What a directory is known by, links followed, also on another device; undefined where there is nothing. */
  abstract originOf(path: string): DirectoryOrigin | undefined;
  /** @throws DataDirectoryError for anything but a directory, or a link to one. */
  abstract assertDirectory(path: string): Promise<void>;
  /** Whether anything has a name, links not followed. */
  abstract isNameTaken(path: string): Promise<boolean>;
  /** Whether a directory, links followed, is below another one or is the same; also resolves to true where there is none. */
  abstract isBelow(directory: string, ancestor: string): Promise<boolean>;
  /** Rejects (`EROFS`, `EACCES`, ...) when names can't be made in a directory. */
  abstract assertWritable(directory: string): Promise<void>;
  /** The bytes of a plain file; undefined for anything else: nothing, a directory, a symbolic link, a pipe. */
  abstract plainFileSize(path: string): Promise<number | undefined>;

  /** Opens a database, which ends with the process at the latest; makes it where there is none. Synchronous, as SQLite is. */
  openDatabase(path: string): SelfCheckingDatabase {
    return SelfCheckingDatabase.open(path);
  }

  /**
   * Makes a file with these bytes; `EEXIST` when the name is taken, otherwise some of it may be there when it rejects.
   *
   * @param device where the file must be, if given; `EXDEV` when it is on another one.
   */
  async createWith(path: string, bytes: Uint8Array, device?: bigint): Promise<void> {
    const file = await this.create(path);
    try {
      if (device !== undefined && this.identityOf(path)?.dev !== device) throw Object.assign(new Error(`EXDEV: ${path}`), { code: 'EXDEV' });
      await file.write([bytes], 0);
    } finally {
      await file.close();
    }
  }

  /** Makes files durable, and their names; also that there is none. */
  async syncFiles(paths: readonly string[]): Promise<void> {
    for (let at = 0; at < paths.length; at += SYNCS_AT_ONCE) {
      await allDone(paths.slice(at, at + SYNCS_AT_ONCE).map((path) => unlessAbsent(this.syncFile(path))));
    }
    for (const directory of new Set(paths.map(dirname))) await unlessAbsent(this.syncDirectory(directory));
  }

  private async syncFile(path: string): Promise<void> {
    const file = await this.open(path);
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

/** The file system that Node.js sees. */
export class NodeDisk extends Disk {
  private readonly fileMaker = new FileMaker();

  override lock(directory: string, name: string): Promise<DataDirectoryLock> {
    return lockDataDirectory(directory, name, { create: false });
  }

  override async create(path: string): Promise<DiskFile> {
    return new NodeDiskFile(await open(path, NEW_FILE));
  }

  override async createSynchronized(path: string): Promise<DiskFile> {
    return new NodeDiskFile(await open(path, NEW_FILE | constants.O_DSYNC));
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
    await unlessAbsent(unlink(path));
  }

  override removeTree(path: string): Promise<void> {
    return rm(path, { recursive: true, force: true });
  }

  override makeDirectory(path: string): Promise<void> {
    return mkdir(path);
  }

  override readDirectory(path: string): Promise<string[]> {
    return readdir(path);
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

  override originOf(path: string): DirectoryOrigin | undefined {
    const stats = statUnlessAbsent(path);
    return stats && { device: stats.dev, inode: stats.ino, bornAt: stats.birthtimeNs };
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

  override createWith(path: string, bytes: Uint8Array, device?: bigint): Promise<void> {
    return this.fileMaker.make(path, bytes, device);
  }

  /** All at once where the system can; then they may be on one file system only. */
  override async syncFiles(paths: readonly string[]): Promise<void> {
    const [first] = paths;
    if (first === undefined || (await syncFileSystem(dirname(first)))) return;
    await super.syncFiles(paths);
  }
}

/** A FIFO doesn't make it wait. */
async function openRegular(path: string, flags: number): Promise<DiskFile> {
  let handle: FileHandle;
  try {
    handle = await open(path, flags | constants.O_NONBLOCK);
  } catch (error) {
    if (hasCode(error, 'EISDIR', 'ENXIO', 'ELOOP', 'ENODEV')) throw new NotAFileError(path);
    throw error;
  }
  if ((await handle.stat()).isFile()) return new NodeDiskFile(handle);
  await handle.close();
  throw new NotAFileError(path);
}

let syncTellsFailures: Promise<boolean> | undefined;

/** Not every command `sync` tells what failed, nor did Linux before 5.8. */
async function findOutWhetherSyncTellsFailures(): Promise<boolean> {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  if (process.platform !== 'linux' || major < 5 || (major === 5 && minor < 8)) return false;
  const { stdout } = await run('sync', ['--version']);
  return stdout.includes('GNU coreutils');
}

/** Resolves to whether all on a file system is durable (syncfs): Linux has a command for that, and Node.js nothing. */
async function syncFileSystem(directory: string): Promise<boolean> {
  try {
    syncTellsFailures ??= findOutWhetherSyncTellsFailures();
    if (!(await syncTellsFailures)) return false;
    await run('sync', ['--file-system', directory]);
    return true;
  } catch {
    // Who syncs the files one by one gets to know what is wrong; the next time it may come off.
    syncTellsFailures = undefined;
    return false;
  }
}

class NodeDiskFile implements DiskFile {
  private own: FileIdentity | undefined;

  constructor(private readonly handle: FileHandle) {}

  async read(buffer: Uint8Array, position: number): Promise<number> {
    let done = 0;
    while (done < buffer.length) {
      const { bytesRead } = await this.handle.read(buffer, done, buffer.length - done, position + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return done;
  }

  async write(chunks: readonly Uint8Array[], position: number): Promise<void> {
    let at = position;
    for (let rest = behind(chunks, 0); rest.length > 0; ) {
      const { bytesWritten } = await this.handle.writev(rest, at);
      at += bytesWritten;
      rest = behind(rest, bytesWritten);
    }
  }

  sync(): Promise<void> {
    return this.handle.datasync();
  }

  truncate(length: number): Promise<void> {
    return this.handle.truncate(length);
  }

  async size(): Promise<number> {
    return (await this.handle.stat()).size;
  }

  async standsAt(path: string): Promise<boolean> {
    // It waits: another thread's turn beside a running sync would cost far more.
    const named = fileIdentity(path);
    this.own ??= await this.handle.stat({ bigint: true });
    return isSameFile(this.own, named);
  }

  close(): Promise<void> {
    return this.handle.close();
  }
}

/** What is left of chunks without their first bytes, so many; none of it is empty. */
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

/** The bytes of a small file; undefined where there is none. @throws NotAFileError, also for a file that is longer than `most`. */
export async function readWhole(disk: Disk, path: string, most = Infinity): Promise<Buffer | undefined> {
  const file = await unlessAbsent(disk.open(path));
  if (!file) return undefined;
  try {
    const size = await file.size();
    if (size > most) throw new NotAFileError(path);
    const bytes = Buffer.alloc(size);
    return bytes.subarray(0, await file.read(bytes, 0));
  } finally {
    await file.close();
  }
}
