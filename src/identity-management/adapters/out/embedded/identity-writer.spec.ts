import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextIteration } from 'node:timers/promises';
import Database from 'libsql';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openIdentityDatabase } from './identity-database.js';
import { type IdentityDatabase, IdentityWriter } from './identity-writer.js';

describe('IdentityWriter', () => {
  let directory: string;
  let other: IdentityDatabase;
  let writer: IdentityWriter;

  const database = (): IdentityDatabase => (writer as unknown as { database: IdentityDatabase }).database;
  const set = (name: string, value: string) =>
    writer.transaction((statements) => statements.prepare('INSERT INTO settings VALUES (?, ?)').run(name, value));
  const settings = () => (other.prepare('SELECT name FROM settings').all() as { name: string }[]).map(({ name }) => name);

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'identity-'));
    other = await openIdentityDatabase(join(directory, 'identity.db'));
    writer = IdentityWriter.open(join(directory, 'identity.db'));
  });
  afterEach(() => {
    writer.close();
    other.close();
    rmSync(directory, { recursive: true });
  });

  it('does not block the main thread while a commit waits', async () => {
    // With a rollback journal, SQLite's commit waits while another connection reads the database.
    writer.close();
    other.pragma('journal_mode = DELETE');
    writer = IdentityWriter.open(join(directory, 'identity.db'));
    database().exec('PRAGMA busy_timeout = 10000');
    other.exec('BEGIN');
    expect(settings()).toEqual([]);
    const committed = set('a', '1');
    await nextIteration();
    other.exec('COMMIT');
    await committed;
    expect(settings()).toEqual(['a']);
  });

  it('does not block the main thread while a checkpoint waits', async () => {
    await set('a', '1');
    database().exec('PRAGMA busy_timeout = 10000');
    other.exec('BEGIN');
    expect(settings()).toEqual(['a']);
    await set('b', '2');
    const done = writer.checkpoint();
    await nextIteration();
    other.exec('COMMIT');
    await done;
    expect(statSync(join(directory, 'identity.db-wal')).size).toBe(0);
  });

  it('undoes a transaction whose work fails, and stays usable', async () => {
    await set('a', '1');
    await expect(set('a', '2')).rejects.toThrow(Database.SqliteError);
    await expect(writer.transaction(() => { throw new Error('refused'); })).rejects.toThrow('refused');
    await set('b', '2');
    expect(settings()).toEqual(['a', 'b']);
  });

  it('uses a statement again after it has failed', async () => {
    const negated = (number: bigint) => writer.transaction((statements) => statements.prepare('SELECT abs(?) AS result').get(number));
    await expect(negated(-(2n ** 63n))).rejects.toThrow('integer overflow');
    expect(await negated(-3n)).toMatchObject({ result: 3 });
  });
});
