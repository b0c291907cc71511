import { dirname } from 'node:path';
import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import type { FileIdentity } from '../../../../common/data-directory/file-identity.js';
import { eachOf } from '../../../../common/each-of.js';
import { NotAFileError, unlessAbsent } from './disk-error.js';
import { SelfCheckingDatabase } from './self-checking-database.js';

/** An open file. Positions and lengths are in bytes. */
export interface DiskFile {
  /**
   * Fills the buffer with the file's bytes from a position on. Resolves to the number of bytes read, which is less than
   * the buffer's length only at the file's end.
   */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** Writes all chunks in order from a position on. If `write` rejects, any of their bytes may have been written. */
  write(chunks: readonly Uint8Array[], position: number): Promise<void>;
  /** Makes the file's bytes and length durable (fdatasync). */
  sync(): Promise<void>;
  truncate(length: number): Promise<void>;
  /** The file's length in bytes when it was opened. An implementation may return a later length instead. */
  size(): Promise<number>;
  /** Whether a path still leads to this open file. False if the file was removed, moved or replaced. */
  standsAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * Identifies a directory, by inode and creation time. Both stay the same when the directory's file system is mounted
 * again under another device number.
 */
export interface DirectoryOrigin {
  readonly device: bigint;
  readonly inode: bigint;
  /** When the directory was created, in nanoseconds since 1970. */
  readonly bornAt: bigint;
}

/**
 * The operations that a store on the local disk needs from a file system. A test can replace some of them, to make them
 * fail or hang. All paths are absolute, but `lock` also accepts a relative one. Unless described otherwise, operations
 * reject with the errors of Node.js (`code`: `ENOENT`, ...). If a name was created, renamed or removed, the change is
 * durable only after the name's directory is synced.
 */
export abstract class Disk {
  /**
   * Locks an existing directory with a lock file. The lock is released at the latest when the process ends (see
   * `lockDataDirectory`).
   */
  abstract lock(directory: string, name: string): Promise<DataDirectoryLock>;
  /** Creates a file and opens it. Rejects with `EEXIST` if the name is taken. */
  abstract create(path: string): Promise<DiskFile>;
  /**
   * Creates a file and opens it so that writes to it are durable when they resolve (O_DSYNC). Rejects with `EEXIST` if
   * the name is taken.
   */
  abstract createSynchronized(path: string): Promise<DiskFile>;
  /**
   * Opens an existing regular file to read or sync it. Needs no write permission. Follows links. Rejects with
   * `NotAFileError` if the path leads to something else, such as a directory, or through links in a circle.
   */
  abstract open(path: string): Promise<DiskFile>;
  /**
   * Opens an existing regular file to read and write it. Rejects with `NotAFileError` if the name exists but is a link,
   * or isn't a regular file.
   */
  abstract openWritable(path: string): Promise<DiskFile>;
  abstract rename(from: string, to: string): Promise<void>;
  /** Removes a file, a link or any other name that isn't a directory's. Also resolves if the name is missing. */
  abstract remove(path: string): Promise<void>;
  /** Removes a name and everything below it. Also resolves if the name is missing. */
  abstract removeTree(path: string): Promise<void>;
  /** Removes a directory if it is empty. Otherwise, or if the name is missing or isn't a directory, does nothing. */
  abstract removeEmptyDirectory(path: string): Promise<void>;
  /** Creates one directory. Rejects with `EEXIST` if the name is taken. */
  abstract makeDirectory(path: string): Promise<void>;
  abstract readDirectory(path: string): Promise<string[]>;
  /**
   * Yields the names in a directory of any size, some at a time, in any order. The caller may remove names meanwhile.
   */
  abstract readLargeDirectory(path: string): AsyncIterable<readonly string[]>;
  /** Makes the creation and removal of names in a directory durable. */
  abstract syncDirectory(path: string): Promise<void>;
  /** Creates a symbolic link. Rejects with `EEXIST` if the name is taken. */
  abstract link(target: string, path: string): Promise<void>;
  abstract readLink(path: string): Promise<string>;
  /**
   * The device and inode of the file or directory that a path leads to, with links followed; undefined if nothing is
   * there. Synchronous, because the call costs less than a turn of the event loop.
   */
  abstract identityOf(path: string): FileIdentity | undefined;
  /**
   * Returns a function that reports whether a path leads to the given file or directory. The function never throws: if
   * the path can't be read, the function returns false. Each call is synchronous and costs one stat.
   */
  abstract placeCheck(path: string, file: FileIdentity): () => boolean;
  /**
   * The origin of the directory that a path leads to, with links followed; undefined if nothing is there. The origin
   * identifies the directory even if the device number changes.
   */
  abstract originOf(path: string): DirectoryOrigin | undefined;
  /**
   * When a name was last added to or removed from a directory, in nanoseconds since 1970; undefined if the directory is
   * missing. Synchronous, like `identityOf`.
   */
  abstract changedAt(path: string): bigint | undefined;
  /** @throws DataDirectoryError unless the path is a directory or a link to one. */
  abstract assertDirectory(path: string): Promise<void>;
  /** Whether a name exists. Links aren't followed. */
  abstract isNameTaken(path: string): Promise<boolean>;
  /**
   * Whether `directory` is the same directory as `ancestor`, or is below it, with links followed. Also resolves to true
   * if `directory` is missing.
   */
  abstract isBelow(directory: string, ancestor: string): Promise<boolean>;
  /** Rejects (`EROFS`, `EACCES`, ...) if the process isn't permitted to create names in a directory. */
  abstract assertWritable(directory: string): Promise<void>;
  /**
   * Size of a regular file in bytes; undefined if the name is missing, or isn't a regular file but, for example, a
   * directory or a symbolic link.
   */
  abstract plainFileSize(path: string): Promise<number | undefined>;

  /**
   * Opens the database of idempotency keys at a path, or creates the database if it is missing. The database is closed
   * at the latest when the process ends. Synchronous, as SQLite is. Throws DamagedDatabaseError if the database can't
   * be opened or isn't one of this service.
   */
  openDatabase(path: string): SelfCheckingDatabase {
    return SelfCheckingDatabase.open(path);
  }

  /**
   * Creates a file with the given bytes. Rejects with `EEXIST` if the name is taken. After any other error, the file
   * may exist, empty or incomplete.
   *
   * @param device the number of the device that the file must be on; rejects with `EXDEV` if the file is on another
   *   one. Default: any device.
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

  /**
   * How often a `syncFiles` of this process has rejected with LostWritesError. A file system reports a loss only once:
   * if the number has grown since a file was written, the file may be incomplete, although its own sync succeeds. This
   * default returns 0.
   */
  lossCount(): number {
    return 0;
  }

  /**
   * Makes files and their names durable. If a file is missing, makes its absence durable, unless its directory is
   * missing, too.
   *
   * @throws LostWritesError if writes may be lost, perhaps of files that aren't in `paths`; an error of the file
   *   system.
   */
  syncFiles(paths: readonly string[]): Promise<void> {
    return this.syncEach(paths);
  }

  /** Makes files durable as `syncFiles` does, but each by itself, which is slower. Never throws LostWritesError. */
  async syncEach(paths: readonly string[]): Promise<void> {
    await eachOf(paths, async (path) => { await unlessAbsent(this.syncFile(path)); });
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

/**
 * Closes a file and ignores errors. A failed close loses nothing here: the bytes of the file are synced already, no
 * longer needed, or were only read. Idempotent.
 */
export const closeQuietly = (file: DiskFile): Promise<void> => file.close().catch(() => undefined);

/**
 * The bytes of a file, all read into memory; undefined if the file is missing.
 *
 * @param most the longest file to read, in bytes. Default: no limit.
 * @throws NotAFileError if the path leads to something other than a file, or the file is longer than `most`; an error
 *   of the file system.
 */
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
