import { accessSync, closeSync, constants, existsSync, openSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'libsql';
import { hasCode } from '../error-code.js';
import { DataDirectoryError } from './data-directory-error.js';
import { irregularDatabaseFile } from './database-files.js';
import { lockHolder } from './lock-holder.js';
import { fileIdentity, placeCheck } from './file-identity.js';
import { makeDirectories } from './make-directories.js';

const ATTEMPTS = 40;
const PAUSE_MS = 25;

/** Another process holds the lock of a DATA_DIR. The message names the process, if it can be found, and the remedy. */
export class DataDirectoryInUseError extends Error {
  constructor(
    readonly directory: string,
    lockPath: string,
  ) {
    const pid = lockHolder(lockPath);
    const holder = pid === undefined ? `: stop it (lsof ${lockPath} shows it)` : ` (pid ${pid}): stop it`;
    super(`DATA_DIR ${directory} is in use by another process${holder}, or set DATA_DIR to another directory`);
    this.name = new.target.name;
  }
}

/** An exclusive lock in DATA_DIR. It is held until it is released or its process ends, even by a crash. */
export interface DataDirectoryLock {
  /**
   * Whether the path still names the locked file. Otherwise another process could take the lock. Synchronous: one stat.
   */
  isHeld(): boolean;
  /** Releases the lock. Idempotent. */
  release(): void;
}

/**
 * Takes the lock `<directory>/<name>.lock`. Creates a missing directory, unless `create` is false.
 *
 * The lock is an exclusive SQLite transaction, which is an operating-system lock on the lock file itself. If this
 * process opened and closed the lock file other than by SQLite, POSIX would release the lock.
 *
 * @param directory the path as the user wrote it, because the error quotes it.
 * @throws DataDirectoryInUseError when the lock isn't free within a second.
 * @throws DataDirectoryError when `create` is true and `directory` isn't a directory, when the path of the lock file
 * isn't that of a regular file, or when the lock file can't be locked.
 * @throws file system errors.
 */
export async function lockDataDirectory(directory: string, name: string, { create = true } = {}): Promise<DataDirectoryLock> {
  if (create) makeDirectories(resolve(directory));
  // Several attempts, because `isLocked` in another process makes the lock busy for microseconds.
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lock = takeUnlessBusy(lockFile(directory, name));
    if (lock) return lock;
    await delay(PAUSE_MS);
  }
  throw new DataDirectoryInUseError(directory, lockFile(directory, name));
}

/**
 * Whether a process, this one included, holds the lock `<directory>/<name>.lock`. False even if the lock file is
 * missing, or if this process may not search the directory.
 *
 * @throws DataDirectoryError when the path isn't that of a lock file, or when the file can't be locked; errors of
 * opening the file.
 */
export function isLocked(directory: string, name: string): boolean {
  const path = lockFile(directory, name);
  if (!existsSync(path)) return false;
  // The probe takes a shared lock, which conflicts with a holder's exclusive lock, but not with another probe.
  const probe = openUnlessBusy(path, 'BEGIN; SELECT count(*) FROM sqlite_master');
  probe?.close();
  return !probe;
}

const lockFile = (directory: string, name: string): string => join(directory, `${name}.lock`);

function takeUnlessBusy(path: string): DataDirectoryLock | undefined {
  createUnlessThere(path);
  // The lock file must be writable: SQLite would open a read-only one too, but BEGIN EXCLUSIVE would then lock nothing.
  accessSync(path, constants.R_OK | constants.W_OK);
  const before = fileIdentity(path);
  const database = openUnlessBusy(path, 'BEGIN EXCLUSIVE');
  if (!database) return undefined;
  // The lock counts only if the path still names the same file: the lock file may have been replaced meanwhile.
  const isHeld = placeCheck(path, before);
  if (before && isHeld()) return { isHeld, release: () => database.close() };
  database.close();
  return undefined;
}

/** Creates a missing lock file. SQLite would create one too, but its errors say less about a failure. */
function createUnlessThere(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o644));
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

function openUnlessBusy(path: string, sql: string): Database.Database | undefined {
  const irregular = irregularDatabaseFile(path);
  if (irregular !== undefined) throw new DataDirectoryError(`${irregular} is not a regular file: remove it and start again`);
  const database = new Database(path);
  try {
    // The journal is kept in memory, so that no journal file appears beside the lock file.
    database.exec(`PRAGMA journal_mode = MEMORY; ${sql}`);
    return database;
  } catch (error) {
    database.close();
    if (!(error instanceof Database.SqliteError)) throw error;
    if (error.code === 'SQLITE_BUSY') return undefined;
    if (error.code === 'SQLITE_NOTADB') throw new DataDirectoryError(`${path} is not a lock file of this service: remove it and start again`, { cause: error });
    throw new DataDirectoryError(`${path} can't be locked: ${error.message}`, { cause: error });
  }
}
