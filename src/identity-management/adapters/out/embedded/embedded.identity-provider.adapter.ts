import { randomUUID } from 'node:crypto';
import type { OnApplicationShutdown } from '@nestjs/common';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { assertAwaited } from '../../../application/ports/awaited.js';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { RoleAlreadyExists, RoleNotFound, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import type { IdentityDatabase } from './identity-database.js';
import { IdentityStore } from './identity-store.js';
import { keysetPages, PAGE_SIZE } from './keyset-pages.js';
import { attempt, toProviderFailure } from './provider-failure.js';

const ROLE_ID = /^role_[0-9a-f]{32}$/;
const USER_ID = /^embedded\|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

type Row<Item> = Item & { readonly seq: number };

/** The default identity provider. Keeps roles and users in its own database, `DATA_DIR/identity/identity.db`. */
export class EmbeddedIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly health = new SharedProbe(() => this.probe());

  private constructor(private readonly store: IdentityStore) {
    super();
  }

  /**
   * @param shared opens the database beside the service that holds the lock of the data directory.
   * @throws DataDirectoryInUseError when another process holds that lock; DataDirectoryError; file system errors.
   */
  static async open(dataDirectory: string, { shared = false } = {}): Promise<EmbeddedIdentityProvider> {
    return new EmbeddedIdentityProvider(await IdentityStore.open(dataDirectory, shared));
  }

  override createRole({ name, permissions }: NewRole, options: ProviderCallOptions): Promise<string> {
    const roleId = `role_${randomUUID().replaceAll('-', '')}`;
    return this.write(options, () => {
      const { changes, lastInsertRowid: seq } = this.database
        .prepare('INSERT INTO roles (role_id, name) VALUES (?, ?) ON CONFLICT (name) DO NOTHING')
        .run(roleId, name);
      if (changes === 0) throw new RoleAlreadyExists('role name');
      const insert = this.database.prepare('INSERT INTO role_permissions (role_seq, permission) VALUES (?, ?)');
      for (const permission of permissions) insert.run(seq, permission);
      return roleId;
    });
  }

  override createUser({ email, name, roleIds }: NewUser, options: ProviderCallOptions): Promise<string> {
    const userId = `embedded|${randomUUID()}`;
    return this.write(options, () => {
      const { changes, lastInsertRowid: seq } = this.database
        .prepare('INSERT INTO users (user_id, email, name) VALUES (?, ?, ?) ON CONFLICT (email) DO NOTHING')
        .run(userId, email, name);
      if (changes === 0) throw new UserAlreadyExists('email');
      for (const roleId of roleIds) this.giveRole(Number(seq), roleId);
      return userId;
    });
  }

  override updateUser(userId: string, { name }: { readonly name: string }, options: ProviderCallOptions): Promise<void> {
    return this.write(options, () => {
      const seq = this.seqOfUser(userId);
      this.database.prepare('UPDATE users SET name = ? WHERE seq = ?').run(name, seq);
    });
  }

  override assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void> {
    return this.write(options, () => {
      this.giveRole(this.seqOfUser(userId), roleId);
    });
  }

  override async *listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    const select = `SELECT seq, role_id AS roleId, name FROM roles WHERE seq > ? ORDER BY seq LIMIT ${PAGE_SIZE}`;
    await this.assertAvailable();
    for await (const rows of keysetPages((after) => this.page<Role>(signal, select, after))) {
      yield rows.map(({ roleId, name }) => ({ roleId, name }));
    }
  }

  override async *listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    const select = `SELECT seq, user_id AS userId, name, email FROM users WHERE seq > ? ORDER BY seq LIMIT ${PAGE_SIZE}`;
    await this.assertAvailable();
    for await (const rows of keysetPages((after) => this.page<User>(signal, select, after))) {
      yield rows.map(({ userId, name, email }) => ({ userId, name, email }));
    }
  }

  /** Commits a small write. Callers share one attempt, and its result for one second. */
  override checkHealth({ signal }: ProviderCallOptions): Promise<void> {
    return attempt(() => {
      assertAwaited(signal);
      return this.health.check();
    });
  }

  /**
   * @throws ProviderUnavailable while the open database isn't the one at its path, because its content can't be trusted
   * then.
   */
  assertAvailable(): Promise<void> {
    return attempt(() => this.store.available());
  }

  /**
   * The permissions that a user's roles currently give, without duplicates.
   *
   * @throws UserNotFound
   */
  permissionsOf(userId: string): Promise<string[]> {
    return this.store.read((database) => {
      const rows = database
        .prepare(
          `SELECT DISTINCT permission FROM role_permissions JOIN user_roles USING (role_seq)
           WHERE user_seq = ? ORDER BY permission`,
        )
        .all(this.seqOfUser(userId)) as { permission: string }[];
      return rows.map(({ permission }) => permission);
    });
  }

  /** Records the issuer that the running service puts into its tokens, for processes that issue tokens beside it. */
  recordIssuer(issuer: string): Promise<void> {
    return this.store.write(() => {
      this.setting('issuer', issuer);
    });
  }

  /** The issuer recorded last; undefined if none was recorded. */
  recordedIssuer(): Promise<string | undefined> {
    return this.store.read((database) => {
      const row = database.prepare("SELECT value FROM settings WHERE name = 'issuer'").get();
      return (row as { value: string } | undefined)?.value;
    });
  }

  /** Closes the database and releases the lock. Idempotent. */
  close(): void {
    this.store.close();
  }

  onApplicationShutdown(): void {
    this.close();
  }

  private get database(): IdentityDatabase {
    return this.store.database;
  }

  /** Reads and writes, because a full or read-only disk fails only on a write. */
  private probe(): Promise<void> {
    return this.store.write((database) => {
      database.prepare('SELECT seq FROM users LIMIT 1').get();
      this.setting('health', new Date().toISOString());
    });
  }

  private setting(name: string, value: string): void {
    this.database
      .prepare('INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value')
      .run(name, value);
  }

  private giveRole(userSeq: number, roleId: string): void {
    const role = ROLE_ID.test(roleId) && this.database.prepare('SELECT seq FROM roles WHERE role_id = ?').get(roleId);
    if (!role) throw new RoleNotFound('role_id');
    this.database
      .prepare('INSERT INTO user_roles (user_seq, role_seq) VALUES (?, ?) ON CONFLICT DO NOTHING')
      .run(userSeq, (role as { seq: number }).seq);
  }

  private seqOfUser(userId: string): number {
    const user = USER_ID.test(userId) && this.database.prepare('SELECT seq FROM users WHERE user_id = ?').get(userId);
    if (!user) throw new UserNotFound('user_id');
    return (user as { seq: number }).seq;
  }

  private write<Result>({ signal }: ProviderCallOptions, work: () => Result): Promise<Result> {
    return attempt(() => {
      assertAwaited(signal);
      return this.store.write(work, signal);
    });
  }

  private page<Item>(signal: AbortSignal, select: string, after: number): readonly Row<Item>[] {
    try {
      assertAwaited(signal);
      this.store.assertHere();
      return this.database.prepare(select).all(after) as Row<Item>[];
    } catch (error) {
      throw toProviderFailure(error);
    }
  }
}
