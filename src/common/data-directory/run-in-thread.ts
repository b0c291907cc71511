import type Database from 'libsql';
import AsyncDatabase from 'libsql/promise';

/**
 * Runs SQL in a thread of libsql. Using the connection before the promise has settled would block the main thread. Both
 * of libsql's classes wrap the same native connection, so the `exec` of the asynchronous class works on a connection of
 * the synchronous class.
 *
 * @throws SqliteError
 */
export const runInThread = (database: Database.Database, sql: string): Promise<void> => AsyncDatabase.prototype.exec.call(database, sql) as Promise<void>;
