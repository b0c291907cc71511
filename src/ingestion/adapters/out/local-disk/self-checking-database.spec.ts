import { chmod, copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextIteration } from 'node:timers/promises';
import Database from 'libsql';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DamagedDatabaseError, SelfCheckingDatabase } from './self-checking-database.js';

/** How many entries a test writes. A checkpoint is due after fewer entries. */
const ENTRIES = 1_200;
const MIN_LOG_BYTES = 100_000;

describe('SelfCheckingDatabase', () => {
  let directory: string;
  let path: string;
  let database: SelfCheckingDatabase;

  const put = (from: number, to: number) => {
    const entries = Array.from({ length: to - from }, (_, index) => [`name ${from + index}`, from + index] as const);
    database.putAll(entries, () => false);
  };
  const logBytes = async () => (await stat(`${path}-wal`)).size;
  /** Makes a checkpoint as a user who isn't root, because root may open everything. */
  const checkpointWithoutRights = async () => {
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      await database.checkpoint();
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  };
  /** Opens a copy of the database file without SQLite's log, as after a power cut that lost the log. */
  const openWithoutLog = async () => {
    const copy = join(directory, 'copy.db');
    await copyFile(path, copy);
    return SelfCheckingDatabase.open(copy);
  };

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'self-checking-database-'));
    path = join(directory, 'day.db');
    database = SelfCheckingDatabase.open(path);
  });
  afterEach(async () => {
    await database.close();
    await rm(directory, { recursive: true });
  });

  it('moves a long log into the file, and stays usable', async () => {
    put(0, ENTRIES);
    expect(await logBytes()).toBeGreaterThan(MIN_LOG_BYTES);
    await database.checkpoint();

    expect(await logBytes()).toBe(0);
    const copy = await openWithoutLog();
    expect([copy.get('name 0'), copy.get(`name ${ENTRIES - 1}`), copy.get('another')]).toEqual([0, ENTRIES - 1, undefined]);
    await copy.close();

    put(ENTRIES, 2 * ENTRIES);
    await database.checkpoint();
    expect(await logBytes()).toBe(0);
    expect([database.get('name 0'), database.get(`name ${2 * ENTRIES - 1}`)]).toEqual([0, 2 * ENTRIES - 1]);
  });

  it('leaves a short log unchanged', async () => {
    put(0, 10);
    const before = await logBytes();
    await database.checkpoint();
    expect(await logBytes()).toBe(before);
  });

  it('has all entries in the file after it is closed', async () => {
    put(0, ENTRIES);
    await database.close();
    const copy = await openWithoutLog();
    expect(copy.get(`name ${ENTRIES - 1}`)).toBe(ENTRIES - 1);
    await copy.close();
  });

  it('does not block the main thread while closing it waits', async () => {
    const { database: connection } = database as unknown as { database: Database.Database };
    // Releases the exclusive lock, so that another connection can make SQLite wait.
    connection.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema; PRAGMA busy_timeout = 10000');
    const other = new Database(path);
    other.exec('BEGIN EXCLUSIVE');
    let isClosed = false;
    const closing = database.close().then(() => (isClosed = true));
    await nextIteration();
    expect(isClosed).toBe(false);
    other.exec('COMMIT');
    await closing;
    other.close();
  });

  it('syncs the names of its files with the next checkpoint if the first one could not open both', async () => {
    put(0, ENTRIES);
    await chmod(path, 0o666);
    await chmod(`${path}-wal`, 0);
    await chmod(directory, 0o755);
    await expect(checkpointWithoutRights()).rejects.toMatchObject({ code: 'EACCES' });
    await chmod(`${path}-wal`, 0o666);
    // Opening a directory to sync it needs the right to read it.
    await chmod(directory, 0o311);
    await expect(checkpointWithoutRights()).rejects.toThrow('it could not be synced');
    await chmod(directory, 0o755);
  });

  it.each(['', '-wal'])('reports damage when its file%s was removed', async (suffix) => {
    put(0, ENTRIES);
    await rm(path + suffix);
    await expect(database.checkpoint()).rejects.toThrow(DamagedDatabaseError);
  });
});
