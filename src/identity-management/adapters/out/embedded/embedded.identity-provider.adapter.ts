import { randomUUID } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import type { OnApplicationShutdown } from '@nestjs/common';
import { type DataDirectoryLock, lockDataDirectory } from '../../../../data-directory/data-directory-lock.js';
import { assertAwaited } from '../../../application/ports/awaited.js';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { RoleAlreadyExists, RoleNotFound, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import { type IdentityDatabase, immediately, openIdentityDatabase } from './identity-database.js';
import { keysetPages, PAGE_SIZE } from './keyset-pages.js';
import { privateDirectory } from './private-files.js';
import { attempt, toProviderFailure } from './provider-failure.js';

const ROLE_ID = /^role_[0-9a-f]{32}$/;
const USER_ID = /^embedded\|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

type Row<Item> = Item & { readonly seq: number };

/**
 * The identity provider of the embedded defaults: roles and users in a database of its own,
 * `DATA_DIR/identity/identity.db`.
 */
export class EmbeddedIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private constructor(
    private readonly path: string,
    private readonly database: IdentityDatabase,
    private readonly lock: DataDirectoryLock | undefined,
  ) {
    super();
  }

  /**
   * @param shared opens it beside the service that holds the lock of the data directory.
   * @throws DataDirectoryInUseError when another process holds that lock.
   */
  static async open(dataDirectory: string, { shared = false } = {}): Promise<EmbeddedIdentityProvider> {
    const path = join(privateDirectory(dataDirectory), 'identity.db');
    const lock = shared ? undefined : await lockDataDirectory(dataDirectory, 'identity');
    try {
      return new EmbeddedIdentityProvider(path, await openIdentityDatabase(path), lock);
    } catch (error) {
      lock?.release();
      throw error;
    }
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
    for await (const rows of keysetPages((after) => this.page<Role>(signal, select, after))) {
      yield rows.map(({ roleId, name }) => ({ roleId, name }));
    }
  }

  override async *listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    const select = `SELECT seq, user_id AS userId, name, email FROM users WHERE seq > ? ORDER BY seq LIMIT ${PAGE_SIZE}`;
    for await (const rows of keysetPages((after) => this.page<User>(signal, select, after))) {
      yield rows.map(({ userId, name, email }) => ({ userId, name, email }));
    }
  }

  /** Reads, and takes the write lock; nothing is written. */
  override checkHealth(options: ProviderCallOptions): Promise<void> {
    return this.write(options, () => {
      accessSync(this.path, constants.R_OK | constants.W_OK);
      this.database.prepare('SELECT seq FROM users LIMIT 1').get();
    });
  }

  /**
   * The permissions that a user's roles give now, each once.
   *
   * @throws UserNotFound
   */
  permissionsOf(userId: string): Promise<string[]> {
    return attempt(() => {
      const rows = this.database
        .prepare(
          `SELECT DISTINCT permission FROM role_permissions JOIN user_roles USING (role_seq)
           WHERE user_seq = ? ORDER BY permission`,
        )
        .all(this.seqOfUser(userId)) as { permission: string }[];
      return rows.map(({ permission }) => permission);
    });
  }

  /** Keeps the issuer that the running service puts into its tokens, for those who issue beside it. */
  recordIssuer(issuer: string): Promise<void> {
    const record = (): void => {
      this.database
        .prepare("INSERT INTO settings VALUES ('issuer', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value")
        .run(issuer);
    };
    return attempt(() => immediately(this.database, record));
  }

  /** The issuer recorded last; undefined before the first. */
  recordedIssuer(): Promise<string | undefined> {
    return attempt(() => {
      const row = this.database.prepare("SELECT value FROM settings WHERE name = 'issuer'").get();
      return (row as { value: string } | undefined)?.value;
    });
  }

  /** Closes the database and gives up the lock; may be called again. */
  close(): void {
    if (this.database.open) this.database.close();
    this.lock?.release();
  }

  onApplicationShutdown(): void {
    this.close();
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
      return immediately(this.database, work, signal);
    });
  }

  private page<Item>(signal: AbortSignal, select: string, after: number): readonly Row<Item>[] {
    try {
      assertAwaited(signal);
      return this.database.prepare(select).all(after) as Row<Item>[];
    } catch (error) {
      throw toProviderFailure(error);
    }
  }
}
