import { accessSync, closeSync, constants, existsSync, openSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'libsql';
import { DataDirectoryError } from './data-directory-error.js';
import { irregularDatabaseFile } from './database-files.js';
import { fileIdentity, isSameFile } from './file-identity.js';
import { makeDirectories } from './make-directories.js';

const ATTEMPTS = 40;
const PAUSE_MS = 25;

/** Another process has the lock. */
export class DataDirectoryInUseError extends Error {
  constructor(readonly directory: string) {
    super(`DATA_DIR ${directory} is in use by another process`);
    this.name = new.target.name;
  }
}

/** A lock that is held until it is released or its process ends, however it ends. */
export interface DataDirectoryLock {
  /**
   * Whether the lock's path still names the file that is locked. False once that file, its directory or its volume was
   * removed, moved or covered: another process could take the lock then. Synchronous: one stat.
   */
  isHeld(): boolean;
  /** Idempotent. */
  release(): void;
}

/**
 * Takes the lock `<directory>/<name>.lock`, and makes the directory first where it is missing and `create` isn't false.
 *
 * The lock is an exclusive SQLite transaction, that is, a lock of the operating system on the file itself: it goes
 * with its process, and whatever path led to the file, it is the same one. Opening and closing that file in this
 * process by other means would drop it (POSIX).
 *
 * @param directory as the user wrote it; the error names it so.
 * @throws DataDirectoryInUseError when the lock isn't free within a second; DataDirectoryError when the lock file is
 * something else; what the file system throws.
 */
export async function lockDataDirectory(directory: string, name: string, { create = true } = {}): Promise<DataDirectoryLock> {
  if (create) makeDirectories(resolve(directory));
  // One who only asks whether it is locked holds it for microseconds: that is no reason to give up.
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lock = takeUnlessBusy(lockFile(directory, name));
    if (lock) return lock;
    await delay(PAUSE_MS);
  }
  throw new DataDirectoryInUseError(directory);
}

/** Whether a process has the lock `<directory>/<name>.lock` now. Makes neither the directory nor the file. */
export function isLocked(directory: string, name: string): boolean {
  const path = lockFile(directory, name);
  if (!existsSync(path)) return false;
  // A shared lock is enough to meet an exclusive one, and two who ask don't meet each other.
  const probe = openUnlessBusy(path, 'BEGIN; SELECT count(*) FROM sqlite_master');
  probe?.close();
  return !probe;
}

const lockFile = (directory: string, name: string): string => join(directory, `${name}.lock`);

function takeUnlessBusy(path: string): DataDirectoryLock | undefined {
  createUnlessThere(path);
  // SQLite opens a file that it may only read too, and then BEGIN EXCLUSIVE locks nothing.
  accessSync(path, constants.R_OK | constants.W_OK);
  const before = fileIdentity(path);
  const database = openUnlessBusy(path, 'BEGIN EXCLUSIVE');
  if (!database) return undefined;
  // Somebody may have replaced the file before SQLite opened it, and what is locked then is not what the path names.
  if (before && isSameFile(before, identityUnlessUnreadable(path))) {
    return { isHeld: () => isSameFile(before, identityUnlessUnreadable(path)), release: () => database.close() };
  }
  database.close();
  return undefined;
}

/** SQLite would make the file too, but says less about why it can't. */
function createUnlessThere(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o644));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function identityUnlessUnreadable(path: string): ReturnType<typeof fileIdentity> {
  try {
    return fileIdentity(path);
  } catch {
    // A volume that fails, or a directory that we may not look into.
    return undefined;
  }
}

function openUnlessBusy(path: string, sql: string): Database.Database | undefined {
  const irregular = irregularDatabaseFile(path);
  if (irregular !== undefined) throw new DataDirectoryError(`${irregular} is not a regular file: remove it and start again`);
  const database = new Database(path);
  try {
    // No journal file beside the lock.
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
