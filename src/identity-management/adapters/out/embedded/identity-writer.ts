import { setTimeout as delay } from 'node:timers/promises';
import Database from 'libsql';
import { runInThread } from '../../../../common/data-directory/run-in-thread.js';

export type IdentityDatabase = Database.Database;

export interface Statements {
  prepare(sql: string): Database.Statement;
}

/** The pause between attempts while a lock is held. A wait inside SQLite would block the whole process instead. */
const BUSY_PAUSE_MS = 10;
const BUSY_ATTEMPTS = 200;

/**
 * A connection that writes to the identity database. Commits and checkpoints wait for the disk in a thread. The
 * connection must not be used meanwhile, because that would block the main thread. So reads have a connection of their
 * own.
 */
export class IdentityWriter implements Statements {
  /** Statements are kept, because finalizing one during a commit would block the main thread. */
  private readonly statements = new Map<string, Database.Statement>();

  constructor(private readonly database: IdentityDatabase) {}

  /**
   * Opens a second connection to a database that is open already.
   *
   * @throws SqliteError
   */
  static open(path: string): IdentityWriter {
    const database = new Database(path);
    database.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON');
    return new IdentityWriter(database);
  }

  prepare(sql: string): Database.Statement {
    const statement = this.statements.get(sql) ?? this.database.prepare(sql);
    this.statements.set(sql, statement);
    return statement;
  }

  /**
   * Runs synchronous work in one transaction that holds the write lock from the start. Used instead of libsql's
   * `transaction`, which loses the original error when SQLite has already rolled back, for example on a full disk.
   *
   * @param check is called when the transaction has begun. If it throws, the work isn't run.
   * @throws SqliteError, `SQLITE_BUSY` at once when another connection holds the lock; errors of the check and the
   * work.
   */
  async transaction<Result>(work: (statements: Statements) => Result, check?: () => void): Promise<Result> {
    this.database.exec('BEGIN IMMEDIATE');
    try {
      const result = this.attempt(work, check);
      await runInThread(this.database, 'COMMIT');
      return result;
    } catch (error) {
      if (this.database.inTransaction) this.database.exec('ROLLBACK');
      throw error;
    }
  }

  private attempt<Result>(work: (statements: Statements) => Result, check?: () => void): Result {
    try {
      check?.();
      return work(this);
    } catch (error) {
      // libsql doesn't reset a statement whose `get` has failed, so every later `get` of it would fail too. A failed
      // COMMIT leaves the statements as they are.
      if (error instanceof Database.SqliteError) this.statements.clear();
      throw error;
    }
  }

  checkpoint(): Promise<void> {
    return checkpoint(this.database);
  }

  close(): void {
    this.database.close();
  }
}

/**
 * Runs synchronous work in one transaction that holds the write lock from the start, and waits for that lock.
 *
 * @throws SqliteError, including when the lock is still held after about two seconds; errors of the work.
 */
export const immediately = <Result>(database: IdentityDatabase, work: () => Result): Promise<Result> =>
  unlessBusy(() => new IdentityWriter(database).transaction(work));

/**
 * Moves the write-ahead log into the database's file, as far as other connections allow it. The connection must not be
 * used meanwhile.
 *
 * @throws SqliteError
 */
export const checkpoint = (database: IdentityDatabase): Promise<void> => runInThread(database, 'PRAGMA wal_checkpoint(TRUNCATE)');

/**
 * Repeats work that fails because another connection holds a lock, for about two seconds or until the signal aborts.
 *
 * @throws the error of the last attempt.
 */
export async function unlessBusy<Result>(work: () => Result | Promise<Result>, signal?: AbortSignal): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isBusy(error) || attempt === BUSY_ATTEMPTS || signal?.aborted) throw error;
    }
    await delay(BUSY_PAUSE_MS);
  }
}

/** Whether an operation failed because another connection holds a lock of the database. */
export const isBusy = (error: unknown): boolean => error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY');
