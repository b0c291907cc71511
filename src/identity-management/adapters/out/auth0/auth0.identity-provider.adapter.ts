import { randomBytes } from 'node:crypto';
import type { OnApplicationShutdown } from '@nestjs/common';
import { z } from 'zod';
import type { ServiceError } from '../../../../common/service-error.js';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { InvalidIdentityValue, ProviderError, RoleNotFound, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import { type ProviderAnswer, type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import { mayBeDone } from '../provider-api/api-failure.js';
import { LeftBehind } from '../provider-api/left-behind.js';
import { ListOperations, Operation } from '../provider-api/operation.js';
import { type Look, ProviderHealth } from '../provider-requirements/provider-health.js';
import { ApiScopes } from './api-scopes.js';
import { FOUND_USER, type FoundUser, toUser, USER_FIELDS } from './found-user.js';
import { ListCalls } from './list-calls.js';
import { type Auth0Connection, listPages, managementApi, pageOf } from './management-api.js';
import { randomPassword } from './random-password.js';
import { RecentUsers } from './recent-users.js';
import { checkTenant } from './tenant-check.js';
import { TenantInvitations } from './tenant-invitations.js';
import { TenantRoles } from './tenant-roles.js';
import { exportedUsers } from './user-export.js';
import { usersByCreation } from './users-by-creation.js';

export interface Auth0Options extends Auth0Connection {
  readonly audience: string;
  readonly connection: string;
  /** The client id of the application for which Auth0 mails new users a link to set a password. Undefined: no mail. */
  readonly invitationClientId?: string | undefined;
  /** How long a health check without problems is cached, in milliseconds (default: 10,000). */
  readonly wellForMs?: number;
}

const USER_ID = /^(?=.{1,300}$)[a-z0-9_-]+\|[^\s\p{Cc}\p{Cs}]+$/u;
const MAX_ROLES_OF_A_USER = 50;
const SEARCH_PAGES = 10;
/** How many users are read at once. With more, the last call could wait too long for the rate limiter. */
const READ_AT_ONCE = 2;

const USERS = z.object({ start: z.number(), total: z.number(), users: z.array(FOUND_USER) });
const ID = z.object({ id: z.string() });
const REFUSAL = z.object({ message: z.string().default(''), errorCode: z.string().default('') });

/**
 * A tenant of Auth0 as identity provider, through its Management API v2. A permission is a scope of the API; a role is
 * a role of the tenant, not of an organization. New users get a password that nobody knows. Requests beyond these
 * limits are refused: 50 roles per user, 1,000 scopes of the API, and 1,000 roles of the tenant. Scopes that were added
 * for a role whose creation failed stay.
 *
 * Auth0's search for users reflects a change only after some time. Users that this process created or changed in the
 * last ten minutes, at most the latest 10,000, are listed with their current data. Changes by others may be missing or
 * outdated until the search reflects them.
 */
export class Auth0IdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly api: ApiClient;
  private readonly leftBehind = new LeftBehind();
  private readonly roles: TenantRoles;
  private readonly recentUsers = new RecentUsers();
  private readonly invitations: TenantInvitations | undefined;
  private readonly health: ProviderHealth;

  constructor(private readonly options: Auth0Options) {
    super();
    const { url, connection, clientId, audience, invitationClientId } = options;
    this.api = managementApi(options);
    const scopes = new ApiScopes(this.api, audience);
    this.roles = new TenantRoles(this.api, this.leftBehind, scopes, audience);
    this.invitations = invitationClientId === undefined ? undefined : new TenantInvitations({ url, connection, clientId: invitationClientId });
    const look: Look = (previous, operation) => {
      // After a check with problems, a new token may be requested: the current one may not have a scope granted since.
      const mayRenewToken = (previous?.problems.length ?? 0) > 0;
      return checkTenant(this.api, scopes, { clientId, audience, mayRenewToken }, operation);
    };
    this.health = new ProviderHealth('Auth0', look, options.wellForMs ?? 10_000);
  }

  override createRole(role: NewRole, { signal }: ProviderCallOptions): Promise<string> {
    return this.roles.create(role, new Operation(signal));
  }

  override async createUser({ email, name, roleIds }: NewUser, { signal }: ProviderCallOptions): Promise<string> {
    const operation = new Operation(signal);
    if (roleIds.length > MAX_ROLES_OF_A_USER) throw new InvalidIdentityValue('roles');
    await this.roles.assertAssignable(roleIds, operation);
    await this.leftBehind.free('user', email, operation);
    // The user's id is chosen here, so that the user can be removed even if Auth0's answer to the creation is lost.
    const ownId = randomBytes(12).toString('hex');
    const { user_id: userId, updated_at: updatedAt } = await this.leftBehind.allOrNothing({
      operation,
      what: 'user',
      name: email,
      create: () => this.makeUser({ email, name, user_id: ownId }, operation),
      complete: async (user) => {
        if (roleIds.length > 0) await this.giveRoles(user.user_id, roleIds, operation);
        return user;
      },
      undo: (created) => {
        const id = created?.user_id ?? `auth0|${ownId}`;
        this.recentUsers.add(id, Infinity);
        return { trace: { userId: id }, remove: (attempt) => this.remove(id, attempt) };
      },
    });
    this.recentUsers.add(userId, updatedAt);
    this.invitations?.send(userId, email);
    return userId;
  }

  override async updateUser(userId: string, { name }: { readonly name: string }, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    const path = userPath(userId);
    try {
      const answer = await this.api.call({ method: 'PATCH', path, body: { name }, repeatable: true, operation });
      if (answer.status === 404) throw new UserNotFound('user_id');
      // 400: the name is invalid, or comes from another source, such as Google, and can be changed only there.
      if (answer.status === 400) throw new InvalidIdentityValue('new_name');
      this.recentUsers.add(userId, read(answer, FOUND_USER).updated_at);
    } catch (error) {
      if (mayBeDone(error)) this.recentUsers.add(userId, Infinity);
      throw error;
    }
  }

  override async assignRole(userId: string, roleId: string, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    assertUserId(userId);
    await this.roles.assertAssignable([roleId], operation);
    await this.giveRoles(userId, [roleId], operation);
  }

  override listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    return this.roles.list(signal);
  }

  override async *listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    const operations = new ListOperations(signal);
    const calls = new ListCalls(operations);
    const outdated = this.recentUsers.updateTimes();
    const source = {
      search: (from: number | undefined, page: number) =>
        calls.make((operation) => this.api.get(`/users?${searchOf(from, page)}`, USERS, operation)),
      searchPages: SEARCH_PAGES,
      exported: () => exportedUsers(this.api, operations),
    };
    for await (const users of usersByCreation(source)) {
      const current = users.filter(({ user_id, updated_at }) => updated_at >= (outdated.get(user_id) ?? -Infinity));
      for (const { user_id } of current) outdated.delete(user_id);
      yield current.map(toUser);
    }
    const left = [...outdated.keys()];
    for (let start = 0; start < left.length; start += READ_AT_ONCE) {
      const operation = operations.next();
      const users = await Promise.all(left.slice(start, start + READ_AT_ONCE).map((userId) => this.find(userId, operation)));
      yield users.filter((user) => user !== undefined).map(toUser);
    }
  }

  override async checkHealth({ signal }: ProviderCallOptions): Promise<void> {
    await this.health.check(signal);
  }

  override get warnings(): readonly string[] {
    return this.health.warnings;
  }

  async onApplicationShutdown(): Promise<void> {
    this.leftBehind.close();
    await Promise.all([this.api.close(), this.invitations?.close()]);
  }

  private async giveRoles(userId: string, roleIds: readonly string[], operation: Operation): Promise<void> {
    const path = `${userPath(userId)}/roles`;
    try {
      const answer = await this.api.call({ method: 'POST', path, body: { roles: roleIds }, operation });
      if (answer.status === 404 || answer.status === 400) throw missing(answer);
      if (answer.status !== 204) throw unexpected(answer);
    } catch (error) {
      if (!mayBeDone(error) || !(await this.hasRoles(path, roleIds, operation))) throw error;
    }
  }

  private async makeUser(user: { email: string; name: string; user_id: string }, operation: Operation): Promise<FoundUser> {
    // Without `verify_email: false`, Auth0 would send a verification mail at once, although the user has no roles yet.
    const flags = { email_verified: false, verify_email: false };
    const body = { ...user, ...flags, connection: this.options.connection, password: randomPassword() };
    const answer = await this.api.call({ method: 'POST', path: '/users', body, operation });
    const { errorCode, message } = refusalOf(answer);
    if (answer.status === 409 && errorCode !== 'custom_domain_conflict') throw new UserAlreadyExists('email');
    if (answer.status === 400 && errorCode === 'invalid_body') throw new InvalidIdentityValue('email');
    if (answer.status >= 400) {
      // Only an error name at the beginning of Auth0's message is used: the rest may quote the client's input.
      const reason = errorCode || (/^\w+Error\b/.exec(message)?.[0] ?? 'no code');
      throw new ProviderError(`${answer.label} with ${answer.status} (${reason}).`);
    }
    return read(answer, FOUND_USER, 201);
  }

  private async hasRoles(path: string, roleIds: readonly string[], operation: Operation): Promise<boolean> {
    const left = new Set(roleIds);
    for await (const roles of listPages(this.api, path, { member: 'roles', schema: ID, operation: () => operation })) {
      for (const { id } of roles) left.delete(id);
      if (left.size === 0) return true;
    }
    return false;
  }

  private find(userId: string, operation: Operation): Promise<FoundUser | undefined> {
    return this.api.find(`${userPath(userId)}?fields=${USER_FIELDS.join(',')}&include_fields=true`, FOUND_USER, operation);
  }

  private async remove(userId: string, operation: Operation): Promise<boolean> {
    if (!(await this.find(userId, operation))) return false;
    await this.api.remove(userPath(userId), operation);
    return true;
  }
}

const refusalOf = ({ body }: ProviderAnswer): z.infer<typeof REFUSAL> => REFUSAL.safeParse(body).data ?? { message: '', errorCode: '' };

function missing(answer: ProviderAnswer): ServiceError {
  const { errorCode, message } = refusalOf(answer);
  if (errorCode === 'inexistent_user' || /\buser does not exist/i.test(message)) return new UserNotFound('user_id');
  return /\brole does not exist/i.test(message) ? new RoleNotFound('role_id') : new InvalidIdentityValue('roles');
}

function assertUserId(userId: string): void {
  if (!USER_ID.test(userId)) throw new UserNotFound('user_id');
}

function userPath(userId: string): string {
  assertUserId(userId);
  return `/users/${encodeURIComponent(userId)}`;
}

function searchOf(from: number | undefined, page: number): string {
  const fields = `fields=${USER_FIELDS.join(',')}&include_fields=true`;
  const query = `${pageOf(page)}&search_engine=v3&sort=created_at:1&${fields}`;
  return from === undefined ? query : `${query}&q=${encodeURIComponent(`created_at:["${new Date(from).toISOString()}" TO *]`)}`;
}
