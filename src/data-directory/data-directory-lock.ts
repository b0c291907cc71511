import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'libsql';

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
  /** Idempotent. */
  release(): void;
}

/**
 * Takes the lock `<directory>/<name>.lock`, and makes the directory first where it is missing.
 *
 * The lock is an exclusive SQLite transaction, that is, a lock of the operating system on the file itself: it goes
 * with its process, and whatever path led to the file, it is the same one. Opening and closing that file in this
 * process by other means would drop it (POSIX).
 *
 * @param directory as the user wrote it; the error names it so.
 * @throws DataDirectoryInUseError when the lock isn't free within a second; what the file system throws.
 */
export async function lockDataDirectory(directory: string, name: string): Promise<DataDirectoryLock> {
  await mkdir(directory, { recursive: true });
  // One who only asks whether it is locked holds it for microseconds: that is no reason to give up.
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const held = openUnlessBusy(directory, name, 'BEGIN EXCLUSIVE');
    if (held) return { release: () => held.close() };
    await delay(PAUSE_MS);
  }
  throw new DataDirectoryInUseError(directory);
}

/** Whether a process has the lock `<directory>/<name>.lock` now. Makes neither the directory nor the file. */
export function isLocked(directory: string, name: string): boolean {
  if (!existsSync(lockFile(directory, name))) return false;
  // A shared lock is enough to meet an exclusive one, and two who ask don't meet each other.
  const probe = openUnlessBusy(directory, name, 'BEGIN; SELECT count(*) FROM sqlite_master');
  probe?.close();
  return !probe;
}

const lockFile = (directory: string, name: string): string => join(directory, `${name}.lock`);

function openUnlessBusy(directory: string, name: string, sql: string): Database.Database | undefined {
  const database = new Database(lockFile(directory, name));
  try {
    // No journal file beside the lock.
    database.exec(`PRAGMA journal_mode = MEMORY; ${sql}`);
    return database;
  } catch (error) {
    database.close();
    if (error instanceof Database.SqliteError && error.code === 'SQLITE_BUSY') return undefined;
    throw error;
  }
}
