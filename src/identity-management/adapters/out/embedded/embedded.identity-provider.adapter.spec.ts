import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import Database from 'libsql';
import AsyncDatabase from 'libsql/promise';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectoryInUseError, isLocked, lockDataDirectory } from '../../../../common/data-directory/data-directory-lock.js';
import { identityProviderContract } from '../../../../testing/identity-provider.contract.js';
import { IdentityRefusal, ProviderError, ProviderUnavailable, RoleNotFound, UserNotFound } from '../../../domain/errors.js';
import type { Role } from '../../../domain/role.js';
import type { User } from '../../../domain/user.js';
import { EmbeddedIdentityProvider } from './embedded.identity-provider.adapter.js';
import { openIdentityDatabase } from './identity-database.js';
import { type IdentityDatabase, IdentityWriter, immediately } from './identity-writer.js';

/** Each of many simultaneous calls has its own signal, because Node warns when many calls wait for one signal. */
const ownOptions = () => ({ signal: new AbortController().signal });
const options = ownOptions();

function temporaryDirectory(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'identity-'));
  return {
    path,
    remove: () => {
      rmSync(path, { recursive: true, force: true });
    },
  };
}

identityProviderContract('EmbeddedIdentityProvider', async () => {
  const directory = temporaryDirectory();
  let provider = await EmbeddedIdentityProvider.open(directory.path);
  return {
    provider,
    unknownUserId: 'embedded|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
    unknownRoleId: 'role_4b1b7a2e6c2f4d589d6a0a8a3a4f9a10',
    reopen: async () => {
      await provider.close();
      return (provider = await EmbeddedIdentityProvider.open(directory.path));
    },
    permissionsOf: (userId) => provider.permissionsOf(userId),
    tearDown: async () => {
      await provider.close();
      directory.remove();
    },
  };
});

describe('EmbeddedIdentityProvider', () => {
  let directory: ReturnType<typeof temporaryDirectory>;
  let provider: EmbeddedIdentityProvider;
  const identity = (): string => join(directory.path, 'identity');
  const databasePath = (): string => join(directory.path, 'identity', 'identity.db');
  const beside = (): Promise<IdentityDatabase> => openIdentityDatabase(databasePath());
  /** The provider's connection for writes. */
  const writing = (): IdentityDatabase =>
    (provider as unknown as { store: { opened: { writer: { database: IdentityDatabase } } } }).store.opened.writer.database;

  /**
   * Advances the clock by a second, for which the result of a health check is cached. So the next check really probes
   * the database.
   */
  const letProbeBeAskedAgain = (): void => {
    vi.advanceTimersByTime(1_000);
  };

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    directory = temporaryDirectory();
    provider = await EmbeddedIdentityProvider.open(directory.path);
  });
  afterEach(async () => {
    vi.useRealTimers();
    vi.restoreAllMocks();
    await provider.close();
    directory.remove();
    rmSync(`${directory.path}-away`, { recursive: true, force: true });
  });

  const createUser = (email: string, signal = ownOptions().signal): Promise<string> =>
    provider.createUser({ email, name: 'Ada', roleIds: [] }, { signal });

  it('issues ids of the documented form', async () => {
    expect(await createUser('ada@example.com')).toMatch(/^embedded\|[0-9a-f-]{36}$/);
    expect(await provider.createRole({ name: 'admin', permissions: ['a:b'] }, options)).toMatch(/^role_[0-9a-f]{32}$/);
  });

  it('treats ids that it could not have issued as unknown', async () => {
    const database = await beside();
    const [role, user] = [`role_${'0'.repeat(32)}x`, `embedded|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10x`];
    database.prepare('INSERT INTO roles (role_id, name) VALUES (?, ?)').run(role, 'x');
    database.prepare('INSERT INTO users (user_id, email, name) VALUES (?, ?, ?)').run(user, 'x@example.com', 'x');
    database.close();
    await expect(provider.assignRole(await createUser('ada@example.com'), role, options)).rejects.toThrow(RoleNotFound);
    await expect(provider.updateUser(user, { name: 'x' }, options)).rejects.toThrow(UserNotFound);
  });

  it('gives a user a thousand roles with a few statements, or none if one of them is unknown', async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `role ${index}`);
    const roleIds = await Promise.all(names.map((name) => provider.createRole({ name, permissions: [`read:${name.slice(5)}`] }, ownOptions())));
    const prepare = vi.spyOn(IdentityWriter.prototype, 'prepare');
    const userId = await provider.createUser({ email: 'ada@example.com', name: 'Ada', roleIds }, options);
    expect(prepare.mock.calls.length).toBeLessThan(10);
    expect(await provider.permissionsOf(userId)).toHaveLength(1_000);

    const unknown = `role_${'0'.repeat(32)}`;
    const user = { email: 'bob@example.com', name: 'Bob' };
    await expect(provider.createUser({ ...user, roleIds: [...roleIds, unknown] }, options)).rejects.toThrow(RoleNotFound);
    await expect(provider.createUser({ ...user, roleIds }, options)).resolves.toBeTypeOf('string');
  });

  it('locks the data directory until it is closed, and can be closed twice', async () => {
    await expect(EmbeddedIdentityProvider.open(directory.path)).rejects.toThrow(DataDirectoryInUseError);
    await provider.onApplicationShutdown();
    expect(isLocked(directory.path, 'identity')).toBe(false);
    const next = await EmbeddedIdentityProvider.open(directory.path);
    await provider.close();
    expect(isLocked(directory.path, 'identity')).toBe(true);
    await next.close();
  });

  it('releases the lock when the database cannot be opened', async () => {
    await provider.close();
    const database = await beside();
    database.exec('PRAGMA user_version = 99');
    database.close();
    await expect(EmbeddedIdentityProvider.open(directory.path)).rejects.toThrow('identity.db: it was made by another version');
    expect(isLocked(directory.path, 'identity')).toBe(false);
  });

  it('is not opened beside a service of another version', async () => {
    const database = await beside();
    database.exec('PRAGMA user_version = 99');
    database.close();
    await expect(EmbeddedIdentityProvider.open(directory.path, { shared: true })).rejects.toThrow('identity.db: it was made by another version');
  });

  it('can be opened beside the service, and each sees what the other writes', async () => {
    const shared = await EmbeddedIdentityProvider.open(directory.path, { shared: true });
    await createUser('ada@example.com');
    const userId = await shared.createUser({ email: 'bob@example.com', name: 'Bob', roleIds: [] }, options);
    await shared.close();
    await expect(provider.updateUser(userId, { name: 'Robert' }, options)).resolves.toBeUndefined();
    expect((await allUsers(provider)).map(({ name }) => name)).toEqual(['Ada', 'Robert']);
  });

  it('keeps the issuer and audience that were recorded last', async () => {
    expect(await provider.recordedClaims()).toEqual({});
    await provider.recordClaims({ issuer: 'http://one/idp', audience: 'one' });
    await provider.recordClaims({ issuer: 'http://two/idp', audience: 'two' });
    expect(await provider.recordedClaims()).toEqual({ issuer: 'http://two/idp', audience: 'two' });
  });

  it('restricts directory and files to their owner, whatever the umask and their earlier modes', async () => {
    const other = temporaryDirectory();
    const previous = process.umask(0);
    try {
      const open = await EmbeddedIdentityProvider.open(other.path);
      await open.createUser({ email: 'ada@example.com', name: 'Ada', roleIds: [] }, options);
      expect(process.umask(0)).toBe(0);
      expect(modes(join(other.path, 'identity'))).toEqual({
        '.': 0o700,
        'identity.db': 0o600,
        'identity.db-shm': 0o600,
        'identity.db-wal': 0o600,
      });
      await open.close();
      chmodSync(join(other.path, 'identity'), 0o755);
      chmodSync(join(other.path, 'identity', 'identity.db'), 0o644);
      await (await EmbeddedIdentityProvider.open(other.path)).close();
      expect(modes(join(other.path, 'identity'))).toMatchObject({ '.': 0o700, 'identity.db': 0o600 });
    } finally {
      process.umask(previous);
      other.remove();
    }
  });

  it('waits for another writing process without blocking other work', async () => {
    const other = await beside();
    other.exec('BEGIN EXCLUSIVE');
    const created = Promise.all(['ada', 'bob', 'eve'].map((name) => createUser(`${name}@example.com`)));
    await provider.recordedClaims();
    let turns = 0;
    for (; turns < 50; turns++) await new Promise(setImmediate);
    other.exec('COMMIT');
    other.close();
    expect(await created).toHaveLength(3);
  });

  /**
   * Lets no commit begin until `release` is called. `begun` resolves when the first commit is due.
   */
  const holdCommits = (): { readonly begun: Promise<void>; release(): void } => {
    const { exec } = AsyncDatabase.prototype; // eslint-disable-line @typescript-eslint/unbound-method
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => { release = resolve; });
    const begun = new Promise<void>((resolve) => {
      vi.spyOn(AsyncDatabase.prototype, 'exec').mockImplementation(async function (this: unknown, sql: string) {
        if (sql === 'COMMIT') {
          resolve();
          await released;
        }
        return exec.call(this, sql) as Promise<void>;
      });
    });
    return { begun, release };
  };
  const emails = async () => (await allUsers(provider)).map(({ email }) => email);

  it('answers a write when it is committed, and reads what is committed meanwhile', async () => {
    const commits = holdCommits();
    let isAnswered = false;
    const created = createUser('ada@example.com').finally(() => { isAnswered = true; });
    await commits.begun;
    expect(await emails()).toEqual([]);
    expect(isAnswered).toBe(false);
    commits.release();
    await created;
    expect(await emails()).toEqual(['ada@example.com']);
  });

  it('commits simultaneous writes one after the other, in the order of the calls', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `${index}@example.com`);
    await Promise.all(names.map((name) => createUser(name)));
    expect(await emails()).toEqual(names);
  });

  it('leaves nothing of a write that waits for another one when its caller gives up', async () => {
    const commits = holdCommits();
    const created = createUser('ada@example.com');
    await commits.begun;
    const caller = new AbortController();
    const waiting = provider.createUser({ email: 'bob@example.com', name: 'Bob', roleIds: [] }, { signal: caller.signal });
    caller.abort();
    await expect(waiting).rejects.toThrow(ProviderUnavailable);
    commits.release();
    await created;
    expect(await emails()).toEqual(['ada@example.com']);
    await createUser('bob@example.com');
  });

  const creations: [string, (signal: AbortSignal) => Promise<string>][] = [
    ['role', (signal) => provider.createRole({ name: 'reader', permissions: ['a:b', 'a:c'] }, { signal })],
    ['user', async (signal) => {
      const [role] = await allRoles(provider);
      return provider.createUser({ email: 'ada@example.com', name: 'Ada', roleIds: role ? [role.roleId] : [] }, { signal });
    }],
  ];
  it.each(creations)('removes a %s whose caller gives up during the commit, so that the call can be repeated', async (_, create) => {
    await provider.createRole({ name: 'writer', permissions: ['a:b'] }, options);
    const commits = holdCommits();
    const caller = new AbortController();
    const created = create(caller.signal);
    await commits.begun;
    const again = create(options.signal);
    caller.abort();
    commits.release();
    await expect(created).rejects.toThrow(ProviderUnavailable);
    await expect(again).resolves.toBeTypeOf('string');
    await expect(create(options.signal)).rejects.toThrow(IdentityRefusal);
  });

  it.each(creations)('removes a %s whose caller gives up during the commit, even while it is being closed', async (_, create) => {
    const commits = holdCommits();
    const caller = new AbortController();
    const created = create(caller.signal);
    await commits.begun;
    caller.abort();
    const closed = provider.close();
    commits.release();
    await expect(created).rejects.toThrow(ProviderUnavailable);
    await closed;
    provider = await EmbeddedIdentityProvider.open(directory.path);
    expect(await emails()).toEqual([]);
    expect(await allRoles(provider)).toEqual([]);
  });

  it('logs a user who could not be removed after the caller gave up', async () => {
    const commits = holdCommits();
    const error = vi.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
    const caller = new AbortController();
    const created = createUser('ada@example.com', caller.signal);
    await commits.begun;
    caller.abort();
    vi.spyOn(Database.prototype, 'exec').mockImplementationOnce(() => { throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL', 13); });
    commits.release();
    await expect(created).rejects.toThrow(ProviderUnavailable);
    expect(error).toHaveBeenCalledWith(expect.objectContaining({ msg: expect.stringMatching(/^\S+ was created after its caller had given up, and could not be removed/) as string }));
    expect(await emails()).toEqual(['ada@example.com']);
  });

  it('closes after the commit in progress, which succeeds, and refuses the writes that wait', async () => {
    const commits = holdCommits();
    const created = createUser('ada@example.com');
    const waiting = createUser('bob@example.com');
    await commits.begun;
    const closed = provider.close();
    expect(isLocked(directory.path, 'identity')).toBe(true);
    commits.release();
    await expect(created).resolves.toBeTypeOf('string');
    await expect(waiting).rejects.toThrow(ProviderError);
    await closed;
    expect(isLocked(directory.path, 'identity')).toBe(false);
    provider = await EmbeddedIdentityProvider.open(directory.path);
    expect(await emails()).toEqual(['ada@example.com']);
  });

  it('continues with the writes that wait when a commit fails', async () => {
    vi.spyOn(AsyncDatabase.prototype, 'exec').mockRejectedValueOnce(new Database.SqliteError('disk I/O error', 'SQLITE_IOERR_FSYNC', 1034));
    const [failed, created] = [createUser('ada@example.com'), createUser('bob@example.com')];
    await expect(failed).rejects.toThrow(ProviderUnavailable);
    await created;
    expect(await emails()).toEqual(['bob@example.com']);
  });

  it('reopens a database that was exchanged during a commit only after the commit', async () => {
    cpSync(identity(), `${identity()}-copy`, { recursive: true });
    const commits = holdCommits();
    const created = createUser('ada@example.com');
    await commits.begun;
    renameSync(identity(), `${identity()}-away`);
    renameSync(`${identity()}-copy`, identity());
    const read = provider.recordedClaims();
    commits.release();
    await expect(created).rejects.toThrow(ProviderUnavailable);
    expect(await read).toEqual({});
    expect(await emails()).toEqual([]);
  });

  it('uses a write-ahead log, full synchronization and foreign keys', () => {
    const database = writing();
    expect(database.pragma('journal_mode')).toEqual([{ journal_mode: 'wal' }]);
    expect(database.pragma('synchronous')).toEqual([{ synchronous: 2 }]);
    expect(database.pragma('foreign_keys')).toEqual([{ foreign_keys: 1 }]);
  });

  it('is unavailable while another process locks the database, and healthy again afterwards', async () => {
    const other = await beside();
    other.exec('BEGIN IMMEDIATE');
    await expect(createUser('ada@example.com')).rejects.toThrow(ProviderUnavailable);
    await expect(provider.checkHealth(options)).rejects.toThrow(ProviderUnavailable);
    other.exec('ROLLBACK');
    other.close();
    letProbeBeAskedAgain();
    await expect(provider.checkHealth(options)).resolves.toBeUndefined();
    await expect(createUser('ada@example.com')).resolves.toBeTypeOf('string');
  });

  it('reports why the database failed, undoes the work, and stays usable', async () => {
    const database = writing();
    const [{ page_count: pages }] = database.pragma('page_count') as [{ page_count: number }];
    database.pragma(`max_page_count = ${pages}`);
    const permissions = Array.from({ length: 256 }, (_, index) => `a:${'x'.repeat(240)}${index}`);
    const failed = provider.createRole({ name: 'big', permissions }, options);
    await expect(failed).rejects.toThrow(ProviderUnavailable);
    await expect(failed).rejects.toMatchObject({ cause: { code: 'SQLITE_FULL' } });
    database.pragma('max_page_count = 100000');
    await expect(provider.createRole({ name: 'big', permissions }, options)).resolves.toBeTypeOf('string');
  });

  it('is unhealthy while a health check finds the disk full, and healthy again with free space', async () => {
    const exec = vi.spyOn(AsyncDatabase.prototype, 'exec').mockRejectedValue(new Database.SqliteError('database or disk is full', 'SQLITE_FULL', 13));
    const check = provider.checkHealth(options);
    await expect(check).rejects.toThrow(ProviderUnavailable);
    await expect(check).rejects.toMatchObject({ cause: { code: 'SQLITE_FULL' } });
    exec.mockRestore();
    letProbeBeAskedAgain();
    await provider.checkHealth(options);
  });

  it('commits a change in a health check, because a full disk refuses nothing less', async () => {
    const other = await beside();
    const version = () => other.pragma('data_version');
    const before = version();
    await provider.checkHealth(options);
    expect(version()).not.toEqual(before);
    other.close();
  });

  it('is unhealthy after it is closed', async () => {
    await provider.close();
    await expect(provider.checkHealth(options)).rejects.toThrow(ProviderError);
    await expect(allUsers(provider)).rejects.toThrow(ProviderError);
  });

  const expectUnavailable = async () => {
    await expect(createUser('new@example.com')).rejects.toThrow(ProviderUnavailable);
    await expect(provider.createRole({ name: 'new', permissions: ['a:b'] }, options)).rejects.toThrow(ProviderUnavailable);
    await expect(allUsers(provider)).rejects.toThrow(ProviderUnavailable);
    await expect(provider.permissionsOf('embedded|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10')).rejects.toThrow(ProviderUnavailable);
    await expect(provider.assertAvailable()).rejects.toThrow(ProviderUnavailable);
    await expect(provider.checkHealth(options)).rejects.toThrow(ProviderUnavailable);
  };

  it.each<[string, () => void, () => void]>([
    ['its directory is moved away', () => { renameSync(identity(), `${identity()}-away`); }, () => { renameSync(`${identity()}-away`, identity()); }],
    ['DATA_DIR is moved away', () => { renameSync(directory.path, `${directory.path}-away`); }, () => { renameSync(`${directory.path}-away`, directory.path); }],
    [
      'its directory is removed and restored from a copy',
      () => {
        cpSync(identity(), `${identity()}-copy`, { recursive: true });
        rmSync(identity(), { recursive: true });
      },
      () => { cpSync(`${identity()}-copy`, identity(), { recursive: true }); },
    ],
    [
      'only its file is removed and restored from a copy',
      () => {
        cpSync(databasePath(), `${identity()}-copy`);
        rmSync(databasePath());
      },
      () => { cpSync(`${identity()}-copy`, databasePath()); },
    ],
    [
      'another database is in its place',
      () => {
        renameSync(databasePath(), `${identity()}-copy`);
        writeFileSync(databasePath(), '');
      },
      () => { renameSync(`${identity()}-copy`, databasePath()); },
    ],
    [
      'a damaged copy is in its place',
      () => {
        cpSync(identity(), `${identity()}-copy`, { recursive: true });
        renameSync(identity(), `${identity()}-away`);
        renameSync(`${identity()}-copy`, identity());
        const bytes = readFileSync(databasePath());
        writeFileSync(databasePath(), bytes.fill('x', bytes.length / 2));
      },
      () => {
        rmSync(identity(), { recursive: true });
        renameSync(`${identity()}-away`, identity());
      },
    ],
  ])('is unavailable while %s, and then continues by itself with all its data', async (_, take, bringBack) => {
    await createUser('ada@example.com');
    take();
    await expectUnavailable();
    bringBack();
    letProbeBeAskedAgain();
    await provider.checkHealth(options);
    await createUser('bob@example.com');
    expect((await allUsers(provider)).map(({ email }) => email)).toEqual(['ada@example.com', 'bob@example.com']);
    const other = await beside();
    expect(other.prepare('SELECT count(*) AS users FROM users').get()).toMatchObject({ users: 2 });
    other.close();
  });

  it.each([
    ['BEGIN IMMEDIATE', []],
    // If the directory is moved at COMMIT, the moved database gets the user, but the caller gets an error.
    ['COMMIT', ['ada@example.com']],
  ])('acknowledges no user when its directory is moved away at %s', async (moment, left) => {
    for (const { prototype } of [Database, AsyncDatabase] as { prototype: { exec(sql: string): unknown } }[]) {
      const { exec } = prototype; // eslint-disable-line @typescript-eslint/unbound-method
      vi.spyOn(prototype, 'exec').mockImplementation(function (this: unknown, sql) {
        if (sql === moment) renameSync(identity(), `${identity()}-away`);
        return exec.call(this, sql);
      });
    }
    await expect(createUser('ada@example.com')).rejects.toThrow(ProviderUnavailable);
    vi.restoreAllMocks();
    renameSync(`${identity()}-away`, identity());
    expect((await allUsers(provider)).map(({ email }) => email)).toEqual(left);
  });

  it('ends a list with an error when its directory is moved away between two pages', async () => {
    const database = await beside();
    await immediately(database, () => {
      const insert = database.prepare('INSERT INTO users (user_id, email, name) VALUES (?, ?, ?)');
      for (let index = 0; index < 501; index++) insert.run(`embedded|${index}`, `${index}@example.com`, 'x');
    });
    database.close();
    const pages = provider.listUsers(options)[Symbol.asyncIterator]();
    expect((await pages.next()).value).toHaveLength(500);
    renameSync(identity(), `${identity()}-away`);
    await expect(pages.next()).rejects.toThrow(ProviderUnavailable);
  });

  it('loses nothing when its log is removed', async () => {
    await createUser('ada@example.com');
    rmSync(`${databasePath()}-wal`);
    await createUser('bob@example.com');
    const other = await beside();
    expect(other.prepare('SELECT email FROM users').all()).toMatchObject([{ email: 'ada@example.com' }, { email: 'bob@example.com' }]);
    other.close();
  });

  it('takes its lock again when the lock file was removed, and is unavailable while another process holds it', async () => {
    const lock = join(directory.path, 'identity.lock');
    rmSync(lock);
    await createUser('ada@example.com');
    expect(isLocked(directory.path, 'identity')).toBe(true);

    rmSync(lock);
    const other = await lockDataDirectory(directory.path, 'identity');
    letProbeBeAskedAgain();
    await expectUnavailable();
    other.release();
    letProbeBeAskedAgain();
    await createUser('bob@example.com');
  });

  it('creates nothing beside a service whose database is missing', async () => {
    rmSync(identity(), { recursive: true });
    await expect(EmbeddedIdentityProvider.open(directory.path, { shared: true })).rejects.toThrow(/identity.db is gone while the service runs/);
    expect(readdirSync(directory.path)).toEqual(['identity.lock']);
  });

  it('lists 20,000 users in pages of 500, and yields to other work between them', async () => {
    const database = await beside();
    await immediately(database, () => {
      const insert = database.prepare('INSERT INTO users (user_id, email, name) VALUES (?, ?, ?)');
      for (let index = 0; index < 20_000; index++) insert.run(`embedded|${index}`, `${index}@example.com`, 'x');
    });
    database.close();
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    const seen = new Set<string>();
    let longest = 0;
    for await (const page of provider.listUsers(options)) {
      longest = Math.max(longest, page.length);
      for (const { userId } of page) seen.add(userId);
    }
    clearInterval(timer);
    expect(seen.size).toBe(20_000);
    expect(longest).toBe(500);
    expect(turns).toBeGreaterThan(0);
  });
});

async function allRoles(provider: EmbeddedIdentityProvider): Promise<Role[]> {
  const roles: Role[] = [];
  for await (const page of provider.listRoles(options)) roles.push(...page);
  return roles;
}

async function allUsers(provider: EmbeddedIdentityProvider): Promise<User[]> {
  const users: User[] = [];
  for await (const page of provider.listUsers(options)) users.push(...page);
  return users;
}

function modes(directory: string): Record<string, number> {
  return Object.fromEntries(
    ['.', ...readdirSync(directory)].map((name) => [name, statSync(join(directory, name)).mode & 0o777]),
  );
}
