import { dirname } from 'node:path';
import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import type { FileIdentity } from '../../../../common/data-directory/file-identity.js';
import { eachOf } from '../../../../common/each-of.js';
import { NotAFileError, unlessAbsent } from './disk-error.js';
import { SelfCheckingDatabase } from './self-checking-database.js';

/** An open file. Positions and lengths are in bytes. */
export interface DiskFile {
  /** Resolves to the number of bytes read, which is less than the buffer's length only at the file's end. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /**
   * If `write` rejects, all, some or none of the bytes may have been written.
   *
   * @param areBlocks whether the chunks are whole blocks of `takeBlocks`, which may be written past the page cache. Not
   *   for a synchronized file, whose writes would not be durable then.
   */
  write(chunks: readonly Uint8Array[], position: number, areBlocks?: boolean): Promise<void>;
  /** Makes the file's bytes and length durable (fdatasync). */
  sync(): Promise<void>;
  truncate(length: number): Promise<void>;
  /** The file's length when it was opened, or at a later time. */
  size(): Promise<number>;
  standsAt(path: string): Promise<boolean>;
  close(): Promise<void>;
}

/** Identifies a directory even if its volume is mounted under another device number: the inode and birth time stay. */
export interface DirectoryOrigin {
  readonly device: bigint;
  readonly inode: bigint;
  /** When the directory was created, in nanoseconds since 1970. */
  readonly bornAt: bigint;
}

/** The space of a volume. What is free is what a process without special rights may still use. 0 of 0 is unknown. */
export interface DiskSpace {
  /** In bytes. */
  readonly free: number;
  /** In bytes. */
  readonly size: number;
  /** How many more files and directories there may be. */
  readonly freeFiles: number;
  readonly files: number;
}

/**
 * The operations that a store on the local disk needs from a file system. All paths are absolute, but `lock` also
 * accepts a relative one. Unless described otherwise, operations reject with the errors of Node.js (`code`: `ENOENT`,
 * ...), and a created, renamed or removed name is durable only after its directory is synced.
 */
export abstract class Disk {
  abstract lock(directory: string, name: string): Promise<DataDirectoryLock>;
  /** Creates an empty file. Rejects with `EEXIST` if the name is taken. */
  abstract create(path: string): Promise<DiskFile>;
  /** Like `create`, but each write to the file is durable when it resolves, and then so is the file's length. */
  abstract createSynchronized(path: string): Promise<DiskFile>;
  /**
   * Opens a regular file to read or sync it. Follows links. Rejects with `NotAFileError` if something else is there.
   */
  abstract open(path: string): Promise<DiskFile>;
  /**
   * Opens a regular file to read and write it. Rejects with `NotAFileError` if something else is there, such as a link.
   */
  abstract openWritable(path: string): Promise<DiskFile>;
  abstract rename(from: string, to: string): Promise<void>;
  /** Removes a file, a link or another name that isn't a directory's. Also resolves if the name is missing. */
  abstract remove(path: string): Promise<void>;
  abstract removeTree(path: string): Promise<void>;
  /** Removes a directory if it is empty. Does nothing if it isn't, or if the path is missing or isn't a directory's. */
  abstract removeEmptyDirectory(path: string): Promise<void>;
  abstract makeDirectory(path: string): Promise<void>;
  abstract readDirectory(path: string): Promise<string[]>;
  abstract readLargeDirectory(path: string): AsyncIterable<readonly string[]>;
  abstract syncDirectory(path: string): Promise<void>;
  /** Creates a symbolic link. Rejects with `EEXIST` if the name is taken. */
  abstract link(target: string, path: string): Promise<void>;
  abstract readLink(path: string): Promise<string>;
  /** The device and inode that a path leads to; undefined if nothing is there. Synchronous: one stat costs little. */
  abstract identityOf(path: string): FileIdentity | undefined;
  /** Returns a check of whether a path still leads to a file: one synchronous stat. False if the path can't be read. */
  abstract placeCheck(path: string, file: FileIdentity): () => boolean;
  abstract originOf(path: string): DirectoryOrigin | undefined;
  /** When a directory last got or lost a name, in nanoseconds since 1970; undefined if the directory is missing. */
  abstract changedAt(path: string): bigint | undefined;
  /** @throws DataDirectoryError unless the path is a directory or a link to one. */
  abstract assertDirectory(path: string): Promise<void>;
  /** Whether anything has the name, even a link whose target is missing. */
  abstract isNameTaken(path: string): Promise<boolean>;
  /** Whether `directory` is `ancestor` or inside it, after following links. Also true if `directory` is missing. */
  abstract isBelow(directory: string, ancestor: string): Promise<boolean>;
  /** Rejects (`EROFS`, `EACCES`, ...) if the process isn't permitted to create names in a directory. */
  abstract assertWritable(directory: string): Promise<void>;
  /** The size of a regular file in bytes; undefined if there is none at the path. Links aren't followed. */
  abstract plainFileSize(path: string): Promise<number | undefined>;

  /** The space of the volume that a path is on. Default: endless. */
  spaceAt(_path: string): Promise<DiskSpace> {
    return Promise.resolve({ free: Infinity, size: Infinity, freeFiles: 0, files: 0 });
  }

  openDatabase(path: string): SelfCheckingDatabase {
    return SelfCheckingDatabase.open(path);
  }

  /**
   * Creates a file. Rejects with `EEXIST` if the name is taken. After any other error, the file may exist, incomplete.
   *
   * @param device the device that the file must be on; rejects with `EXDEV` if it is on another one. Default: any.
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
   * if the number has grown since a file was written, the file may be incomplete, although its own sync succeeds.
   */
  lossCount(): number {
    return 0;
  }

  /**
   * Makes files and their names durable, or the absence of a missing file, unless its directory is missing, too.
   *
   * @throws LostWritesError if writes may be lost, perhaps of other files; an error of the file system.
   */
  syncFiles(paths: readonly string[]): Promise<void> {
    return this.syncEach(paths);
  }

  /** Like `syncFiles`, but syncs each file by itself, which is slower. Never throws LostWritesError. */
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

/** Closes a file and ignores errors. For a file whose bytes are synced, no longer needed, or were only read. */
export const closeQuietly = (file: DiskFile): Promise<void> => file.close().catch(() => undefined);

/**
 * The bytes of a file; undefined if it is missing.
 *
 * @param most the longest file to read, in bytes.
 * @throws NotAFileError if something else is there, or the file is longer than `most`; an error of the file system.
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
