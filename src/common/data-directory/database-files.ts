import { statUnlessAbsent } from './file-identity.js';

/** What SQLite appends to a database's path: the database, its write-ahead log, the log's index, the rollback journal. */
export const DATABASE_SUFFIXES = ['', '-wal', '-shm', '-journal'];

/**
 * The first file of a database that exists and isn't a regular file. To be called before SQLite opens the database: it
 * blocks the whole process at a FIFO. Synchronous: one stat a file.
 */
export function irregularDatabaseFile(path: string): string | undefined {
  return DATABASE_SUFFIXES.map((suffix) => path + suffix).find((file) => statUnlessAbsent(file)?.isFile() === false);
}
