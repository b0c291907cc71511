import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import Database from 'libsql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { explainRefusal } from '../../src/app/explain-refusal.js';
import { startService } from '../support/service.js';
import { writeSigningKeys } from '../support/signing-keys.js';

describe('a DATA_DIR that cannot be used', () => {
  let base: string;

  beforeAll(async () => {
    base = await mkdtemp(join(tmpdir(), 'refused-'));
  });
  // A service that refused to start may still be writing to its DATA_DIR, so the removal is tried several times.
  afterAll(() => rm(base, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

  /** Expects that the service refuses to start on this DATA_DIR, and that its explanation is one line that matches. */
  async function expectRefused(data: string, line: RegExp): Promise<void> {
    const refusal: unknown = await startService({ DATA_DIR: data }).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refusal).toBeDefined();
    const explanation = explainRefusal(refusal, data);
    expect(explanation).toMatch(line);
    expect(explanation).not.toContain('\n');
  }

  it.each([
    ['identity.db', 'no database'],
    ['signing-keys.json', '[]'],
    ['admin-secret', ''],
    ['admin-secret', 'too-short\n'],
  ])('is reported when %s is not valid', async (name, text) => {
    const data = join(base, `broken-${name}-${text.length}`);
    await mkdir(join(data, 'identity'), { recursive: true });
    await writeFile(join(data, 'identity', name), text);
    await expectRefused(data, new RegExp(`^DATA_DIR: .*${name}`));
  });

  const fifo = (path: string) => promisify(execFile)('mkfifo', [path]);
  const file = (path: string) => writeFile(path, '');
  const garbage = (path: string) => writeFile(path, 'garbage'.repeat(1_000));
  const directory = (path: string) => mkdir(path);
  const link = (path: string) => symlink('/nowhere', path);
  const linkToItself = (path: string) => symlink(basename(path), path);
  const tooLong = async (path: string) => {
    await writeFile(path, '');
    await truncate(path, 3 * 1024 ** 3);
  };
  const otherDatabase = (path: string) => {
    const database = new Database(path);
    database.exec('CREATE TABLE users (a); PRAGMA user_version = 1');
    database.close();
  };

  const databaseWithOurTables = (path: string) => {
    const database = new Database(path);
    for (const name of ['roles', 'role_permissions', 'users', 'user_roles', 'settings']) database.exec(`CREATE TABLE ${name} (a)`);
    database.exec('PRAGMA user_version = 1; PRAGMA application_id = 7');
    database.close();
  };

  it.each<[string, string, (path: string) => unknown]>([
    ['a file', 'uploads', file],
    ['a file', 'files', file],
    ['a link to nothing', 'staging', link],
    ['a file', 'pending', file],
    ['a file', 'identity', file],
    ['a directory', 'uploads.lock', directory],
    ['garbage', 'uploads.lock', garbage],
    ['a FIFO', 'identity.lock', fifo],
    ['an empty file', 'identity/admin-secret', file],
    ['a directory', 'identity/admin-secret', directory],
    ['a FIFO', 'identity/admin-secret', fifo],
    ['an empty file', 'identity/signing-keys.json', file],
    ['garbage', 'identity/signing-keys.json', garbage],
    ['a directory', 'identity/signing-keys.json', directory],
    ['a directory', 'identity/identity.db', directory],
    ['a FIFO', 'identity/identity.db', fifo],
    ['garbage', 'identity/identity.db', garbage],
    ['a database of another program', 'identity/identity.db', otherDatabase],
    ['a FIFO', 'identity/identity.db-wal', fifo],
    ['a FIFO', 'identity/identity.db-journal', fifo],
    ['a database of another program with tables of the same names', 'identity/identity.db', databaseWithOurTables],
    ['a link to nothing', 'identity/identity.db', link],
    ['a link to nothing', 'identity/signing-keys.json', link],
    ['a link to nothing', 'identity/admin-secret', link],
    ['a link to nothing', 'uploads.lock', link],
    ['a link to itself', 'uploads.lock', linkToItself],
    ['a link to itself', 'identity/signing-keys.json', linkToItself],
    ['a link to itself', 'identity/identity.db', linkToItself],
    ['a link to itself', 'pending', linkToItself],
    ['3 GiB', 'identity/admin-secret', tooLong],
    ['a FIFO', 'uploads.lock-journal', fifo],
    ['a file', 'uploads/kind=historical', file],
    ['a link to nothing', 'files/kind=nowcast', link],
    ['a file', 'uploads/kind=nowcast', file],
    ['a link to nothing', 'files/kind=historical', link],
  ])('is reported in one line when a part of it is %s: %s', async (what, name, make) => {
    const data = join(base, `${what}-${name}`.replaceAll(/\W/g, '-'));
    await mkdir(dirname(join(data, name)), { recursive: true });
    if (!['identity', 'identity/signing-keys.json'].includes(name)) await writeSigningKeys(data);
    await make(join(data, name));
    await expectRefused(data, new RegExp(`^DATA_DIR: .*${join(data, name)}.*(move it|remove|put )`, 'i'));
  });

  it.each<[string, (base: string) => Promise<string>]>([
    ['is beneath /proc', () => Promise.resolve('/proc/load-data/data')],
    ['is beneath a file', async (base) => (await file(join(base, 'a-file')), join(base, 'a-file', 'data'))],
    ['is a link to nothing', async (base) => (await link(join(base, 'a-link')), join(base, 'a-link'))],
    ['is a device', () => Promise.resolve('/dev/null')],
    ['has too long a name', (base) => Promise.resolve(join(base, 'x'.repeat(300)))],
  ])('is reported in one line when it %s', async (_, make) => {
    const data = await make(base);
    await expectRefused(data, /^DATA_DIR: .*\/.*(set DATA_DIR|make the directory)/);
  });
});

describe('a HOST that cannot be used', () => {
  it('is reported in one line', async () => {
    const data = await mkdtemp(join(tmpdir(), 'refused-host-'));
    const refusal: unknown = await startService({ DATA_DIR: data, HOST: '192.0.2.1' }).catch((error: unknown) => error);
    expect(explainRefusal(refusal, data)).toMatch(/^HOST, PORT: .*EADDRNOTAVAIL.*192\.0\.2\.1.*: set HOST to an address of this machine$/);
    await rm(data, { recursive: true });
  });
});
