import { randomUUID } from 'node:crypto';
import { setImmediate as nextIteration } from 'node:timers/promises';
import type { OnApplicationShutdown } from '@nestjs/common';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { RoleAlreadyExists, RoleNotFound, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import { toProviderFailure } from './identity-database.js';
import { IdentityStore } from './identity-store.js';
import type { Statements } from './identity-writer.js';

const ROLE_ID = /^role_[0-9a-f]{32}$/;
const USER_ID = /^embedded\|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const PAGE_SIZE = 500;

export interface TokenClaims {
  readonly issuer: string;
  readonly audience: string;
}

/** The default identity provider. Keeps roles and users in its own database, `DATA_DIR/identity/identity.db`. */
export class EmbeddedIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly health = new SharedProbe(() => this.probe());

  private constructor(private readonly store: IdentityStore) {
    super();
  }

  /**
   * @param shared whether to open the database without the lock, for a second process beside the running service.
   * @throws as `IdentityStore.open`.
   */
  static async open(dataDirectory: string, { shared = false } = {}): Promise<EmbeddedIdentityProvider> {
    return new EmbeddedIdentityProvider(await IdentityStore.open(dataDirectory, shared));
  }

  override createRole({ name, permissions }: NewRole, { signal }: ProviderCallOptions): Promise<string> {
    const roleId = `role_${randomUUID().replaceAll('-', '')}`;
    return this.store.write((statements) => {
      const { changes, lastInsertRowid: seq } = statements
        .prepare('INSERT INTO roles (role_id, name) VALUES (?, ?) ON CONFLICT (name) DO NOTHING')
        .run(roleId, name);
      if (changes === 0) throw new RoleAlreadyExists('role name');
      const insert = statements.prepare('INSERT INTO role_permissions (role_seq, permission) VALUES (?, ?)');
      for (const permission of permissions) insert.run(seq, permission);
      return roleId;
    }, { signal, undo: removeRole });
  }

  override createUser({ email, name, roleIds }: NewUser, { signal }: ProviderCallOptions): Promise<string> {
    const userId = `embedded|${randomUUID()}`;
    return this.store.write((statements) => {
      const { changes, lastInsertRowid: seq } = statements
        .prepare('INSERT INTO users (user_id, email, name) VALUES (?, ?, ?) ON CONFLICT (email) DO NOTHING')
        .run(userId, email, name);
      if (changes === 0) throw new UserAlreadyExists('email');
      giveRoles(statements, Number(seq), roleIds);
      return userId;
    }, { signal, undo: removeUser });
  }

  override updateUser(userId: string, { name }: { readonly name: string }, { signal }: ProviderCallOptions): Promise<void> {
    return this.store.write((statements) => {
      statements.prepare('UPDATE users SET name = ? WHERE seq = ?').run(name, seqOfUser(statements, userId));
    }, { signal });
  }

  override assignRole(userId: string, roleId: string, { signal }: ProviderCallOptions): Promise<void> {
    return this.store.write((statements) => {
      giveRoles(statements, seqOfUser(statements, userId), [roleId]);
    }, { signal });
  }

  override listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    return this.pages<Role>('role_id AS roleId, name FROM roles', ({ roleId, name }) => ({ roleId, name }), signal);
  }

  override listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    return this.pages<User>('user_id AS userId, name, email FROM users', ({ userId, name, email }) => ({ userId, name, email }), signal);
  }

  override async checkHealth({ signal }: ProviderCallOptions): Promise<void> {
    if (signal.aborted) throw noLongerAwaited(signal);
    await this.health.check().catch((error: unknown) => {
      throw toProviderFailure(error);
    });
  }

  /**
   * Resolves if the database is available, if necessary after reopening it (see `IdentityStore.available`).
   *
   * @throws ProviderUnavailable when it isn't; ProviderError when the provider is closed.
   */
  assertAvailable(): Promise<void> {
    return this.store.available();
  }

  /**
   * The permissions that a user's roles give now, without duplicates.
   *
   * @throws UserNotFound, ProviderUnavailable, ProviderError
   */
  permissionsOf(userId: string): Promise<string[]> {
    return this.store.read((statements) => {
      const rows = statements
        .prepare(
          `SELECT DISTINCT permission FROM role_permissions JOIN user_roles USING (role_seq)
           WHERE user_seq = ? ORDER BY permission`,
        )
        .all(seqOfUser(statements, userId)) as { permission: string }[];
      return rows.map(({ permission }) => permission);
    });
  }

  /** Stores the issuer and audience of the running service's tokens, for other processes that issue tokens for it. */
  recordClaims({ issuer, audience }: TokenClaims): Promise<void> {
    return this.store.write((statements) => {
      setting(statements, 'issuer', issuer);
      setting(statements, 'audience', audience);
    });
  }

  /** The issuer and audience recorded last, as far as they were recorded. Earlier versions recorded no audience. */
  recordedClaims(): Promise<Partial<TokenClaims>> {
    return this.store.read((statements) => {
      const rows = statements.prepare("SELECT name, value FROM settings WHERE name IN ('issuer', 'audience')").all();
      return Object.fromEntries((rows as { name: string; value: string }[]).map(({ name, value }) => [name, value]));
    });
  }

  /** Closes the database and releases the lock, after the write in progress. Waiting writes reject. Idempotent. */
  close(): Promise<void> {
    return this.store.close();
  }

  onApplicationShutdown(): Promise<void> {
    return this.close();
  }

  /** The health check writes too, because a read succeeds even if the disk is full. */
  private probe(): Promise<void> {
    return this.store.write((statements) => {
      statements.prepare('SELECT seq FROM users LIMIT 1').get();
      setting(statements, 'health', new Date().toISOString());
    });
  }

  private async *pages<Item>(
    select: string,
    toItem: (row: Item) => Item,
    signal: AbortSignal,
  ): AsyncGenerator<readonly Item[], void, undefined> {
    const query = `SELECT seq, ${select} WHERE seq > ? ORDER BY seq LIMIT ${PAGE_SIZE}`;
    for (let after = 0, isLast = false; !isLast; ) {
      await nextIteration();
      if (signal.aborted) throw noLongerAwaited(signal);
      const rows = (await this.store.read((statements) => statements.prepare(query).all(after))) as (Item & { readonly seq: number })[];
      after = rows.at(-1)?.seq ?? after;
      isLast = rows.length < PAGE_SIZE;
      yield rows.map(toItem);
    }
  }
}

function setting(statements: Statements, name: string, value: string): void {
  statements
    .prepare('INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value')
    .run(name, value);
}

function removeRole(statements: Statements, roleId: string): void {
  statements.prepare('DELETE FROM role_permissions WHERE role_seq = (SELECT seq FROM roles WHERE role_id = ?)').run(roleId);
  statements.prepare('DELETE FROM roles WHERE role_id = ?').run(roleId);
}

function removeUser(statements: Statements, userId: string): void {
  statements.prepare('DELETE FROM user_roles WHERE user_seq = (SELECT seq FROM users WHERE user_id = ?)').run(userId);
  statements.prepare('DELETE FROM users WHERE user_id = ?').run(userId);
}

/** Gives a user roles, whose ids must be distinct, in one statement: thousands would block the event loop. */
function giveRoles(statements: Statements, userSeq: number, roleIds: readonly string[]): void {
  if (!roleIds.every((roleId) => ROLE_ID.test(roleId))) throw new RoleNotFound('role_id');
  // An assignment that exists already is updated, so that `changes` counts each role that exists.
  const { changes } = statements
    .prepare(
      `INSERT INTO user_roles (user_seq, role_seq) SELECT ?, seq FROM roles WHERE role_id IN (SELECT value FROM json_each(?))
       ON CONFLICT (user_seq, role_seq) DO UPDATE SET role_seq = excluded.role_seq`,
    )
    .run(userSeq, JSON.stringify(roleIds));
  if (changes < roleIds.length) throw new RoleNotFound('role_id');
}

function seqOfUser(statements: Statements, userId: string): number {
  const user = USER_ID.test(userId) && statements.prepare('SELECT seq FROM users WHERE user_id = ?').get(userId);
  if (!user) throw new UserNotFound('user_id');
  return (user as { seq: number }).seq;
}
