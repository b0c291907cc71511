import { isCircleOfLinks, statUnlessAbsent } from './file-identity.js';

/**
 * Suffixes of the paths of a SQLite database's files: the database, its write-ahead log, that log's index, the rollback
 * journal.
 */
export const DATABASE_SUFFIXES = ['', '-wal', '-shm', '-journal'];

/**
 * The path of a file of the SQLite database at `path` that exists but isn't a regular file; undefined if there is none.
 * Links are followed, and a circle of links counts as irregular. Throws other errors of the file system. Must be called
 * before SQLite opens the database, because opening a FIFO blocks the whole process. Synchronous: at most one stat per
 * file of the database.
 */
export function irregularDatabaseFile(path: string): string | undefined {
  return DATABASE_SUFFIXES.map((suffix) => path + suffix).find((file) => !isRegularOrAbsent(file));
}

function isRegularOrAbsent(path: string): boolean {
  try {
    return statUnlessAbsent(path)?.isFile() !== false;
  } catch (error) {
    if (isCircleOfLinks(error)) return false;
    throw error;
  }
}
