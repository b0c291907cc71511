import { statUnlessAbsent } from './file-identity.js';

/** Suffixes of a SQLite database's files: the database, its write-ahead log, the log's index, the rollback journal. */
export const DATABASE_SUFFIXES = ['', '-wal', '-shm', '-journal'];

/**
 * The path of a database's file that exists and isn't a regular file; undefined if there is none. Must be checked
 * before SQLite opens the database, because opening a FIFO blocks the whole process. Synchronous: at most one stat per
 * file.
 */
export function irregularDatabaseFile(path: string): string | undefined {
  return DATABASE_SUFFIXES.map((suffix) => path + suffix).find((file) => statUnlessAbsent(file)?.isFile() === false);
}
