import { hasCode } from '../error-code.js';
import { statUnlessAbsent } from './file-identity.js';

/** The suffixes of the files of a database: itself, its write-ahead log, that log's index, the rollback journal. */
export const DATABASE_SUFFIXES = ['', '-wal', '-shm', '-journal'];

/**
 * A file of the SQLite database at `path` that exists but isn't a regular file; undefined if there is none. Must be
 * called before SQLite opens the database, because opening a FIFO blocks the whole process. Synchronous: at most one
 * stat per file of the database.
 *
 * @throws errors of the file system, except that a path through a circle of links counts as a file that isn't regular.
 */
export function irregularDatabaseFile(path: string): string | undefined {
  return DATABASE_SUFFIXES.map((suffix) => path + suffix).find((file) => !isRegularOrAbsent(file));
}

function isRegularOrAbsent(path: string): boolean {
  try {
    return statUnlessAbsent(path)?.isFile() !== false;
  } catch (error) {
    if (hasCode(error, 'ELOOP')) return false;
    throw error;
  }
}
