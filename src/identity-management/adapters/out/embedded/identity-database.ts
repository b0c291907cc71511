import { chmodSync, closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import Database from 'libsql';
import { isCode, syncDirectory } from './private-files.js';

export type IdentityDatabase = Database.Database;

const SCHEMA_VERSION = 1;
const SCHEMA = `
  CREATE TABLE roles (seq INTEGER PRIMARY KEY, role_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE) STRICT;
  CREATE TABLE role_permissions (
    role_seq INTEGER NOT NULL REFERENCES roles, permission TEXT NOT NULL, PRIMARY KEY (role_seq, permission)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE users (
    seq INTEGER PRIMARY KEY, user_id TEXT NOT NULL UNIQUE, email TEXT NOT NULL UNIQUE, name TEXT NOT NULL
  ) STRICT;
  CREATE TABLE user_roles (
    user_seq INTEGER NOT NULL REFERENCES users, role_seq INTEGER NOT NULL REFERENCES roles, PRIMARY KEY (user_seq, role_seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** While another process writes we wait, but never inside SQLite, where the whole process would wait. */
const BUSY_PAUSE_MS = 10;
const BUSY_ATTEMPTS = 200;

/**
 * Opens the embedded provider's database, and makes it where it is missing. Any number of processes may open it at
 * once. What is committed survives a power cut.
 *
 * @throws SqliteError; Error when a newer version of the service made the file.
 */
export async function openIdentityDatabase(path: string): Promise<IdentityDatabase> {
  createPrivateFile(path);
  const database = new Database(path);
  try {
    database.pragma('busy_timeout = 0');
    await unlessBusy(() => database.pragma('journal_mode = WAL'));
    database.pragma('synchronous = FULL');
    database.pragma('foreign_keys = ON');
    if (schemaVersion(database) === 0) {
      await immediately(database, () => {
        if (schemaVersion(database) === 0) database.exec(SCHEMA);
      });
      syncDirectory(dirname(path));
    }
    if (schemaVersion(database) !== SCHEMA_VERSION) {
      throw Object.assign(new Error('it was made by another version of the service'), { code: 'ERR_SCHEMA_VERSION' });
    }
    return database;
  } catch (error) {
    database.close();
    if (error instanceof Error) error.message = `${path}: ${error.message}`;
    throw error;
  }
}

/**
 * Runs synchronous work in one transaction that has the write lock from its beginning. Waits for that lock for about two
 * seconds, or until it is told to give up.
 */
export function immediately<Result>(database: IdentityDatabase, work: () => Result, signal?: AbortSignal): Promise<Result> {
  return unlessBusy(() => transaction(database, work), signal);
}

/** libsql's own `transaction` hides what went wrong where SQLite has already rolled back (a full disk, for one). */
function transaction<Result>(database: IdentityDatabase, work: () => Result): Result {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.inTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** Whether another connection holds what we wanted for longer than we wait. */
export const isBusy = (error: unknown): boolean => error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY');

/**
 * SQLite gives its companions (-wal, -shm) the mode of the database, which therefore is set before it opens it.
 * A file that is there already must not be opened here: closing it would end the locks of this process on it (POSIX).
 */
function createPrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error;
  }
  chmodSync(path, 0o600);
}

async function unlessBusy<Result>(work: () => Result, signal?: AbortSignal): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || attempt === BUSY_ATTEMPTS || signal?.aborted) throw error;
    }
    await setTimeout(BUSY_PAUSE_MS);
  }
}

function schemaVersion(database: IdentityDatabase): number {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  return version;
}
