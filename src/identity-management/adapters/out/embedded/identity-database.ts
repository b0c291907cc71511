import { randomInt } from 'node:crypto';
import { chmodSync, closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'libsql';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { irregularDatabaseFile } from '../../../../common/data-directory/database-files.js';
import { runInThread } from '../../../../common/data-directory/run-in-thread.js';
import { hasCode } from '../../../../common/error-code.js';
import { ServiceError } from '../../../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';
import { checkpoint, type IdentityDatabase, immediately, isBusy, unlessBusy } from './identity-writer.js';
import { syncDirectory } from './private-files.js';

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

const MAGIC = 'SQLite format 3\0';
const HEADER_BYTES = 100;
const APPLICATION_ID_AT = 68;
const COLUMNS = {
  roles: 'seq, role_id, name',
  role_permissions: 'role_seq, permission',
  users: 'seq, user_id, email, name',
  user_roles: 'user_seq, role_seq',
  settings: 'name, value',
};

/**
 * Opens the embedded provider's database, and creates it if missing. With `create` set to false, check first that the
 * file exists, because SQLite would leave an empty one. Any number of processes may have the database open. Committed
 * data survives a power failure.
 *
 * @throws DataDirectoryError when the file isn't a database of this service, can't be written, or belongs to another
 * version of the service.
 * @throws SqliteError `SQLITE_BUSY` when another process keeps the file locked for about two seconds.
 * @throws errors of the file system when the file can't be created.
 */
export async function openIdentityDatabase(path: string, { create = true } = {}): Promise<IdentityDatabase> {
  const irregular = irregularDatabaseFile(path);
  if (irregular !== undefined) throw new DataDirectoryError(`${irregular} is not a regular file: move it away, or put the right one back`);
  if (create) createPrivateFile(path);
  let database: IdentityDatabase | undefined;
  try {
    database = new Database(path);
    database.pragma('busy_timeout = 0');
    await prepare(database, path, create);
    return database;
  } catch (error) {
    database?.close();
    if (isBusy(error)) throw error;
    if (error instanceof DataDirectoryError) throw error;
    if (isUnwritable(error)) throw new DataDirectoryError(`${path}: ${(error as Error).message}: make it writable, with free space on its volume`, { cause: error });
    throw new DataDirectoryError(`${path}: ${(error as Error).message}: move it away with its -wal, or put the right one back`, { cause: error });
  }
}

async function prepare(database: IdentityDatabase, path: string, create: boolean): Promise<void> {
  if (await unlessBusy(() => isForeign(database))) throw new DataDirectoryError(`${path} is not an identity database of this service: move it away, or put the right one back`);
  await unlessBusy(() => database.pragma('journal_mode = WAL'));
  database.pragma('synchronous = FULL');
  database.pragma('foreign_keys = ON');
  if (create && (schemaVersion(database) === 0 || idOf(database) === 0)) {
    await immediately(database, () => {
      if (schemaVersion(database) === 0) database.exec(SCHEMA);
      if (idOf(database) === 0) database.exec(`PRAGMA application_id = ${randomInt(1, 2 ** 31)}`);
    });
    // Moves the new id from the write-ahead log into the database's file, because `idInFile` reads only that file.
    await unlessBusy(() => checkpoint(database));
    syncDirectory(dirname(path));
  }
  if (schemaVersion(database) !== SCHEMA_VERSION) {
    throw new DataDirectoryError(`${path}: it was made by another version of the service: start that one, or move the file away`);
  }
}

/** A database's random id (SQLite's `application_id`), which stays when its file is moved. Copies have the same id. */
export function idOf(database: IdentityDatabase): number {
  const { application_id: id } = database.prepare('PRAGMA application_id').get() as { application_id: number };
  return id;
}

/**
 * Reads a database's id from the header of its file (SQLite's file format, section 1.3); undefined if it isn't a SQLite
 * database. Doesn't use SQLite, which would apply a write-ahead log that lies beside the file. This process must not
 * have the database open: closing the file here would drop this process's locks on it (POSIX).
 */
export function idInFile(path: string): number | undefined {
  const header = Buffer.alloc(HEADER_BYTES);
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(file).isFile() || readSync(file, header) < HEADER_BYTES) return undefined;
  } finally {
    closeSync(file);
  }
  return header.toString('latin1', 0, MAGIC.length) === MAGIC ? header.readInt32BE(APPLICATION_ID_AT) : undefined;
}

/**
 * Whether SQLite's `quick_check` finds no damage. Reads the whole database in a thread; the connection must not be used
 * meanwhile.
 */
export async function isIntact(database: IdentityDatabase): Promise<boolean> {
  await runInThread(database, "CREATE TEMP TABLE damage AS SELECT quick_check FROM pragma_quick_check(1, 'main')");
  const { quick_check: found } = database.prepare('SELECT quick_check FROM damage').get() as { quick_check: string };
  database.exec('DROP TABLE damage');
  return found === 'ok';
}

function isForeign(database: IdentityDatabase): boolean {
  if (database.prepare('SELECT 1 FROM sqlite_master').get() === undefined) return false;
  const names = database.prepare("SELECT name FROM pragma_table_info(?) WHERE (SELECT type FROM sqlite_master WHERE name = ?) = 'table'");
  return Object.entries(COLUMNS).some(([table, columns]) => {
    const found = (names.all(table, table) as { name: string }[]).map(({ name }) => name);
    return !columns.split(', ').every((column) => found.includes(column));
  });
}

const isUnwritable = (error: unknown): boolean =>
  error instanceof Database.SqliteError && /^SQLITE_(FULL|READONLY|IOERR|CANTOPEN)/.test(error.code);

/** Converts an error of the database, or of work on it, to a domain error. A `ServiceError` is returned unchanged. */
export function toProviderFailure(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (isBusy(error)) return new ProviderUnavailable('The identity database is busy.', { cause: error });
  if (isUnwritable(error)) return new ProviderUnavailable('The disk of the identity database fails or is full.', { cause: error });
  return new ProviderError('The identity database failed.', { cause: error });
}

/**
 * Creates the database's file if missing, and sets its mode, which SQLite gives to its companion files (-wal, -shm)
 * too. An existing file must not be opened here: closing it would drop this process's locks on it (POSIX).
 */
function createPrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
  chmodSync(path, 0o600);
}

function schemaVersion(database: IdentityDatabase): number {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  return version;
}
