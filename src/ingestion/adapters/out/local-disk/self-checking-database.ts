import { hash } from 'node:crypto';
import Database from 'libsql';
import { irregularDatabaseFile } from '../../../../data-directory/database-files.js';

/** Written to the file's header; another number means another schema. */
const SCHEMA_VERSION = 2;
const SCHEMA = 'CREATE TABLE entries (key BLOB PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID';
const INSERT = 'INSERT INTO entries (record, key) VALUES (?, ?)';
const UPDATE = 'UPDATE entries SET record = ? WHERE key = ?';
/** Cast, because libsql ends the process on a text that isn't UTF-8, as damage may make it. */
const AT_OR_BEFORE = `SELECT CAST(key AS BLOB) AS key, CAST(record AS BLOB) AS record
  FROM entries WHERE key <= ? ORDER BY key DESC LIMIT 1`;
const KEY_BYTES = 32;
const FIRST_KEY = Buffer.alloc(KEY_BYTES);
const LAST_KEY = Buffer.alloc(KEY_BYTES, 0xff);
const CHECKSUM_BYTES = 16;
/** Failures of SQLite that say nothing about the file. */
const NOT_DAMAGE = ['SQLITE_FULL', 'SQLITE_NOMEM'];

/** A database can't be used, or holds something else than what was put into it. */
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
  /** The key behind this one in the database. */
  readonly next: Buffer;
  /** JSON. */
  readonly value: Buffer;
}

/**
 * JSON values by name, in an SQLite database that is this process's alone. Reads find any damage to what they depend on,
 * also damage that SQLite doesn't notice: each record has a checksum over its key, its value, and the key behind it. So
 * a name that isn't there is proved by the record in front of it, and costs one look-up too.
 *
 * Everything is synchronous. Everything throws DamagedDatabaseError for damage, and SqliteError when the disk is full.
 */
export class SelfCheckingDatabase {
  private isOpen = true;
  /** Compiling a statement costs far more than running it. */
  private readonly statements = new Map<string, Database.Statement>();

  private constructor(
    private readonly path: string,
    private readonly database: Database.Database,
  ) {}

  /** Opens a database, and makes it where there is none. */
  static open(path: string): SelfCheckingDatabase {
    return checked(path, () => {
      const irregular = irregularDatabaseFile(path);
      if (irregular !== undefined) throw new DamagedDatabaseError(path, `${irregular} is not a regular file`);
      const database = new Database(path);
      const opened = new SelfCheckingDatabase(path, database);
      try {
        // With an exclusive lock there is no `-shm` file, which others could damage or truncate while it is mapped.
        database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
        opened.prepare();
        return opened;
      } catch (error) {
        opened.close();
        throw error;
      }
    });
  }

  /** The value of a name; undefined where it has none. */
  get(name: string): unknown {
    return checked(this.path, () => {
      const key = keyOf(name);
      const found = this.atOrBefore(key);
      return found.key.equals(key) ? parse(found.record) : undefined;
    });
  }

  /**
   * Puts values in, all or none of them.
   *
   * @param replaces whether a value takes the place of the one that its name has.
   */
  putAll(entries: readonly (readonly [name: string, value: unknown])[], replaces: (value: unknown, present: unknown) => boolean): void {
    checked(this.path, () => {
      this.database.exec('BEGIN');
      try {
        for (const [name, value] of entries) this.put(keyOf(name), value, replaces);
        this.database.exec('COMMIT');
      } catch (error) {
        this.rollBack();
        throw error;
      }
    });
  }

  /** Idempotent. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    try {
      // libsql's own `close` keeps the lock until the garbage collector has every statement. A journal on disk would fail
      // for a file that was moved, and keep the lock too.
      this.database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema');
    } catch {
      // The next one to open it finds what is wrong with it.
    }
    this.database.close();
  }

  private prepare(): void {
    const { user_version: version } = this.database.prepare('PRAGMA user_version').get() as { user_version: number };
    const isNew = version === 0 && this.database.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
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

  /** The record with a key, or the one in front of it; either way one that leaves no room for another. */
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
      // SQLite has rolled back already, or the database is set aside next.
    }
  }

  private damaged(): DamagedDatabaseError {
    return new DamagedDatabaseError(this.path, 'its contents fail their checksums');
  }
}

const keyOf = (name: string): Buffer => hash('sha256', name, 'buffer');

const checksum = (key: Buffer, body: Buffer): Buffer => hash('sha256', Buffer.concat([key, body]), 'buffer').subarray(0, CHECKSUM_BYTES);

const parse = ({ value }: ChainedRecord): unknown => JSON.parse(value.toString()) as unknown;

/** What SQLite throws, as DamagedDatabaseError where it is about the file. */
function checked<T>(path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof DamagedDatabaseError) throw error;
    if (error instanceof Database.SqliteError) {
      if (NOT_DAMAGE.some((code) => error.code.startsWith(code))) throw error;
      throw new DamagedDatabaseError(path, error.message, error);
    }
    // libsql has no class for it; its message ends with SQLite's code, SQLITE_CANTOPEN for instance.
    if (error instanceof Error && error.message.startsWith('ConnectionFailed')) throw new DamagedDatabaseError(path, 'it can not be opened', error);
    throw error;
  }
}
