import { hash } from 'node:crypto';
import { closeSync, fdatasync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import Database from 'libsql';
import { irregularDatabaseFile } from '../../../../common/data-directory/database-files.js';
import { runInThread } from '../../../../common/data-directory/run-in-thread.js';
import { hasCode } from '../../../../common/error-code.js';

const SCHEMA_VERSION = 2;
const SCHEMA = 'CREATE TABLE entries (key BLOB PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID';
const INSERT = 'INSERT INTO entries (record, key) VALUES (?, ?)';
const UPDATE = 'UPDATE entries SET record = ? WHERE key = ?';
/**
 * The casts are needed because libsql ends the process on text that isn't UTF-8, which damage may produce. The query
 * orders by `entries.key`, because `ORDER BY key` would refer to the cast column and sort every row.
 */
const AT_OR_BEFORE = `SELECT CAST(key AS BLOB) AS key, CAST(record AS BLOB) AS record
  FROM entries WHERE entries.key <= ? ORDER BY entries.key DESC LIMIT 1`;
const KEY_BYTES = 32;
const FIRST_KEY = Buffer.alloc(KEY_BYTES);
const LAST_KEY = Buffer.alloc(KEY_BYTES, 0xff);
const CHECKSUM_BYTES = 16;
/** After this many writes, SQLite's log has about 4 MiB: moving it into the database file takes milliseconds. */
const CHECKPOINT_AFTER = 1_000;
const syncDescriptor = promisify(fdatasync);
/**
 * Moves SQLite's log into the database file, syncs both, and releases the lock. libsql's own `close` keeps the lock
 * until every statement is garbage-collected. With a rollback journal on disk, the release would fail if the database
 * file was moved, so the journal is in memory.
 */
const RELEASE = 'PRAGMA synchronous = NORMAL; PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema';
const NOT_DAMAGE = ['SQLITE_FULL', 'SQLITE_NOMEM'];

/** The error when a database can't be used, has another schema, or contains damage. */
export class DamagedDatabaseError extends Error {
  constructor(
    readonly path: string,
    reason: string,
    cause?: unknown,
  ) {
    super(`${path}: ${reason}`, { cause });
    this.name = new.target.name;
  }
}

interface ChainedRecord {
  readonly next: Buffer;
  readonly value: Buffer;
}

/**
 * Stores JSON values by name, in an SQLite database that only this process uses. A read detects even most damage that
 * SQLite doesn't notice: each record has a checksum over its key, its value and the next record's key. So the record
 * before a missing name proves that the name is missing.
 *
 * Everything but `checkpoint` and `close` is synchronous. Every method but `close` throws DamagedDatabaseError for
 * damage, and SqliteError if the disk is full or memory is short. `open` may also throw DamagedDatabaseError for a
 * shortage of memory or file descriptors.
 */
export class SelfCheckingDatabase {
  private closing: Promise<void> | undefined;
  private logged = 0;
  private areNamesSynced = false;
  /** Kept open until the database is closed: closing a descriptor would release SQLite's lock (POSIX). */
  private readonly descriptors = new Map<string, number>();
  /**
   * Compiled statements: compiling one costs far more than running it. All are kept, because the garbage collector
   * would finalize a dropped statement on the main thread, which would block while `close` is in progress.
   */
  private readonly statements = new Map<string, Database.Statement>();

  private constructor(
    private readonly path: string,
    private readonly database: Database.Database,
  ) {}

  /** Opens a database, or creates it if it is missing. */
  static open(path: string): SelfCheckingDatabase {
    return checked(path, () => {
      const irregular = irregularDatabaseFile(path);
      if (irregular !== undefined) throw new DamagedDatabaseError(path, `${irregular} is not a regular file`);
      const database = new Database(path);
      const opened = new SelfCheckingDatabase(path, database);
      try {
        // With the exclusive lock there is no `-shm` file, which others could damage or truncate while it is mapped.
        // After a power cut the database has the state of the last checkpoint or close, or a later one, or is damaged.
        database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0');
        opened.prepare();
        return opened;
      } catch (error) {
        // Releases the lock, even if that waits for the disk: the caller may open another database there at once.
        try {
          database.exec(RELEASE);
        } catch {
          // Ignored: the original error says what is wrong.
        }
        database.close();
        throw error;
      }
    });
  }

  /** The value under a name. Undefined if the name was never written, null if it was erased. */
  get(name: string): unknown {
    return checked(this.path, () => {
      const key = keyOf(name);
      const found = this.atOrBefore(key);
      return found.key.equals(key) ? parse(found.record) : undefined;
    });
  }

  /**
   * Writes values by name, in one transaction.
   *
   * @param replaces whether a value replaces the present one. Not called if the name is new.
   */
  putAll(entries: readonly (readonly [name: string, value: unknown])[], replaces: (value: unknown, present: unknown) => boolean): void {
    checked(this.path, () => {
      this.database.exec('BEGIN');
      try {
        for (const [name, value] of entries) this.put(keyOf(name), value, replaces);
        this.database.exec('COMMIT');
        this.logged += entries.length;
      } catch (error) {
        this.rollBack();
        throw error;
      }
    });
  }

  /**
   * Writes null for each name, in one transaction. The next `checkpoint` that moves the log overwrites the old values.
   */
  erase(names: readonly string[]): void {
    this.runPragma('secure_delete = ON');
    try {
      this.putAll(names.map((name) => [name, null]), () => true);
    } finally {
      this.runPragma('secure_delete = OFF');
    }
  }

  /**
   * Moves SQLite's log into the database file if the log is long or `isForced` is true, but not after `close`. Syncs
   * the log before the file changes, then the file before the log is emptied, then the empty log. SQLite would do these
   * syncs on the main thread. Write nothing until `checkpoint` resolves.
   *
   * @throws DamagedDatabaseError, including when a sync fails; SqliteError; an error of the file system.
   */
  async checkpoint(isForced = false): Promise<void> {
    if ((!isForced && this.logged < CHECKPOINT_AFTER) || this.closing) return;
    const file = this.descriptorOf('');
    const log = this.descriptorOf('-wal');
    this.logged = 0;
    await this.sync(log);
    if (!this.areNamesSynced) await this.syncNames();
    this.runPragma('wal_checkpoint(PASSIVE)');
    await this.sync(file);
    this.emptyLog();
    await this.sync(log);
  }

  /**
   * Closes the database, waiting for the disk in another thread. The database must not be used any more, and none must
   * be opened at the path before `close` resolves. Never rejects. Idempotent.
   */
  close(): Promise<void> {
    this.closing ??= this.release();
    return this.closing;
  }

  private async release(): Promise<void> {
    // If the database is damaged or stays locked, the next attempt to open it reports that.
    await runInThread(this.database, RELEASE).catch(() => undefined);
    quietly(() => this.database.close());
    // The descriptors have nothing left to sync: unless RELEASE has failed, SQLite has synced the files already.
    for (const descriptor of this.descriptors.values()) quietly(() => { closeSync(descriptor); });
  }

  private descriptorOf(suffix: '' | '-wal'): number {
    try {
      const descriptor = this.descriptors.get(suffix) ?? openSync(this.path + suffix, 'r+');
      this.descriptors.set(suffix, descriptor);
      return descriptor;
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      throw new DamagedDatabaseError(this.path + suffix, 'it was removed', error);
    }
  }

  private async sync(descriptor: number): Promise<void> {
    await syncDescriptor(descriptor).catch((error: unknown) => this.failToSync(error));
  }

  /**
   * Syncs the directory. Until then, a power cut may undo the creation of the database file and its log, or bring back
   * the log of an earlier process.
   */
  private async syncNames(): Promise<void> {
    try {
      const directory = await open(dirname(this.path));
      await directory.sync().finally(() => directory.close());
      this.areNamesSynced = true;
    } catch (error) {
      this.failToSync(error);
    }
  }

  /** A failed sync counts as damage, because data that was not synced may be lost later without a trace. */
  private failToSync(error: unknown): never {
    throw new DamagedDatabaseError(this.path, 'it could not be synced', error);
  }

  /** Empties SQLite's log. A failure is damage: SQLite would write over a log that may be older than the database. */
  private emptyLog(): void {
    try {
      this.runPragma('wal_checkpoint(TRUNCATE)');
    } catch (error) {
      throw new DamagedDatabaseError(this.path, 'its log could not be emptied', error);
    }
  }

  private runPragma(pragma: string): void {
    checked(this.path, () => {
      if (!this.closing) this.database.exec(`PRAGMA ${pragma}`);
    });
  }

  private prepare(): void {
    const { user_version: version } = this.statement('PRAGMA user_version').get() as { user_version: number };
    const isNew = version === 0 && this.statement('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (!isNew && version !== SCHEMA_VERSION) throw new DamagedDatabaseError(this.path, 'it has another schema');
    if (!isNew) return;
    this.database.exec(`BEGIN; ${SCHEMA}; PRAGMA user_version = ${SCHEMA_VERSION}`);
    this.write(INSERT, FIRST_KEY, { next: LAST_KEY, value: Buffer.from('null') });
    this.database.exec('COMMIT');
  }

  private put(key: Buffer, value: unknown, replaces: (value: unknown, present: unknown) => boolean): void {
    const found = this.atOrBefore(key);
    const bytes = Buffer.from(JSON.stringify(value));
    if (found.key.equals(key)) {
      if (replaces(value, parse(found.record))) this.write(UPDATE, key, { next: found.record.next, value: bytes });
      return;
    }
    this.write(UPDATE, found.key, { next: key, value: found.record.value });
    this.write(INSERT, key, { next: found.record.next, value: bytes });
  }

  private atOrBefore(key: Buffer): { key: Buffer; record: ChainedRecord } {
    const row = this.statement(AT_OR_BEFORE).get([key]) as { key?: unknown; record?: unknown } | undefined;
    if (!Buffer.isBuffer(row?.key) || !Buffer.isBuffer(row.record)) throw this.damaged();
    const body = row.record.subarray(CHECKSUM_BYTES);
    if (!checksum(row.key, body).equals(row.record.subarray(0, CHECKSUM_BYTES))) throw this.damaged();
    const next = body.subarray(0, KEY_BYTES);
    if (row.key.compare(key) > 0 || key.compare(next) >= 0) throw this.damaged();
    return { key: row.key, record: { next, value: body.subarray(KEY_BYTES) } };
  }

  private write(sql: string, key: Buffer, { next, value }: ChainedRecord): void {
    const body = Buffer.concat([next, value]);
    const { changes } = this.statement(sql).run(Buffer.concat([checksum(key, body), body]), key);
    if (changes !== 1) throw this.damaged();
  }

  private statement(sql: string): Database.Statement {
    const known = this.statements.get(sql) ?? this.database.prepare(sql);
    this.statements.set(sql, known);
    return known;
  }

  private rollBack(): void {
    try {
      this.database.exec('ROLLBACK');
    } catch {
      // Ignored: either SQLite has rolled back the transaction already, or the database is damaged.
    }
  }

  private damaged(): DamagedDatabaseError {
    return new DamagedDatabaseError(this.path, 'its contents fail their checksums');
  }
}

function quietly(action: () => void): void {
  try {
    action();
  } catch {
    // Ignored: the database isn't used any more. The next attempt to open it finds whatever is wrong.
  }
}

const keyOf = (name: string): Buffer => hash('sha256', name, 'buffer');

const checksum = (key: Buffer, body: Buffer): Buffer => hash('sha256', Buffer.concat([key, body]), 'buffer').subarray(0, CHECKSUM_BYTES);

const parse = ({ value }: ChainedRecord): unknown => JSON.parse(value.toString()) as unknown;

function checked<T>(path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof DamagedDatabaseError) throw error;
    if (error instanceof Database.SqliteError) {
      if (NOT_DAMAGE.some((code) => error.code.startsWith(code))) throw error;
      throw new DamagedDatabaseError(path, error.message, error);
    }
    // libsql has no class for the error of a database that can't be opened, so its message is checked.
    if (error instanceof Error && error.message.startsWith('ConnectionFailed')) throw new DamagedDatabaseError(path, "it can't be opened", error);
    throw error;
  }
}
