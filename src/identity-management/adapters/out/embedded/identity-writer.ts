import Database from 'libsql';
import { checkpoint, type IdentityDatabase, type Statements, transaction } from './identity-database.js';

/**
 * The connection that writes to the identity database. Commits and checkpoints wait for the disk in a thread of libsql.
 * The connection must not be used meanwhile, because that would block the main thread too. So reads use a connection
 * of their own.
 */
export class IdentityWriter implements Statements {
  private readonly database: IdentityDatabase;
  /**
   * Compiled statements by their SQL. They are kept so that the garbage collector doesn't finalize them: it does that
   * on the main thread, which would block while a commit of the same connection is in progress.
   */
  private readonly statements = new Map<string, Database.Statement>();

  /**
   * Opens a second connection to a database that is open already.
   *
   * @throws SqliteError
   */
  constructor(path: string) {
    this.database = new Database(path);
    this.database.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON');
  }

  prepare(sql: string): Database.Statement {
    const statement = this.statements.get(sql) ?? this.database.prepare(sql);
    this.statements.set(sql, statement);
    return statement;
  }

  /**
   * Runs synchronous work in one transaction, like the function `transaction` of identity-database.ts.
   *
   * @throws SqliteError; errors of the work.
   */
  transaction<Result>(work: (statements: Statements) => Result): Promise<Result> {
    return transaction(this.database, () => {
      try {
        return work(this);
      } catch (error) {
        // libsql doesn't reset a statement whose `get` has failed, so every later `get` of the statement would fail
        // too. So all statements are compiled again.
        if (error instanceof Database.SqliteError) this.statements.clear();
        throw error;
      }
    });
  }

  /**
   * Moves the content of the write-ahead log into the database's file, like the function `checkpoint` of
   * identity-database.ts.
   *
   * @throws SqliteError
   */
  checkpoint(): Promise<void> {
    return checkpoint(this.database);
  }

  close(): void {
    this.database.close();
  }
}
