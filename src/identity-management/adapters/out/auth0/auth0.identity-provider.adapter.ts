import type { OnApplicationShutdown } from '@nestjs/common';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { InvalidIdentityValue } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import type { ApiClient } from '../provider-api/api-client.js';
import { LeftBehind } from '../provider-api/left-behind.js';
import { Operation } from '../provider-api/operation.js';
import { type Look, ProviderHealth } from '../provider-requirements/provider-health.js';
import { ApiScopes } from './api-scopes.js';
import { type Auth0Connection, managementApi } from './management-api.js';
import { checkTenant } from './tenant-check.js';
import { TenantInvitations } from './tenant-invitations.js';
import { TenantRoles } from './tenant-roles.js';
import { assertUserId, TenantUsers } from './tenant-users.js';

export interface Auth0Options extends Auth0Connection {
  /** The identifier of the API whose scopes are the permissions. */
  readonly audience: string;
  /** The name of the database connection in which new users are created. */
  readonly connection: string;
  /** The application on whose behalf new users get a mail to set their password. No mail is sent if it is undefined. */
  readonly invitationClientId?: string | undefined;
  /**
   * How long a healthy result is cached, in milliseconds (default: 10,000). Each check counts against the tenant's rate
   * limit.
   */
  readonly wellForMs?: number;
}

const MOST_ROLES_OF_A_USER = 50;

/**
 * A tenant of Auth0, accessed through its Management API v2. A permission is a scope of the API; a role is a role of
 * the tenant. All roles of the tenant are listed and assignable, except those of organizations. New users are created
 * in one database connection with a password that nobody knows. They get no mail, except the one on behalf of
 * `invitationClientId`.
 *
 * A role or user whose creation fails is removed again, after the answer if necessary. Added scopes stay. Limits beyond
 * which requests are refused: 50 roles per user, 1,000 scopes of the API, and 1,000 roles of the tenant.
 *
 * Auth0's search reflects a change only after some time. Users that this process created or changed in the last ten
 * minutes are listed as they are. Changes by others may be missing or outdated for as long as the search takes.
 *
 * All calls share one pace (`CallPace`).
 */
export class Auth0IdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly api: ApiClient;
  private readonly leftBehind = new LeftBehind();
  private readonly roles: TenantRoles;
  private readonly users: TenantUsers;
  private readonly invitations: TenantInvitations | undefined;
  private readonly health: ProviderHealth;

  constructor(options: Auth0Options) {
    super();
    const { url, connection, clientId, audience, invitationClientId } = options;
    this.api = managementApi(options);
    const scopes = new ApiScopes(this.api, audience);
    this.roles = new TenantRoles(this.api, this.leftBehind, scopes, audience);
    this.users = new TenantUsers(this.api, this.leftBehind, connection);
    this.invitations = invitationClientId === undefined ? undefined : new TenantInvitations({ url, connection, clientId: invitationClientId });
    const look: Look = (previous, operation) => {
      // A missing scope may have been granted since the last check.
      const mayRenewToken = (previous?.problems.length ?? 0) > 0;
      return checkTenant(this.api, scopes, { clientId, audience, mayRenewToken }, operation);
    };
    this.health = new ProviderHealth('Auth0', look, options.wellForMs ?? 10_000);
  }

  override createRole(role: NewRole, { signal }: ProviderCallOptions): Promise<string> {
    return this.roles.create(role, new Operation(signal));
  }

  override async createUser(user: NewUser, { signal }: ProviderCallOptions): Promise<string> {
    const operation = new Operation(signal);
    if (user.roleIds.length > MOST_ROLES_OF_A_USER) throw new InvalidIdentityValue('roles');
    await this.roles.assertAssignable(user.roleIds, operation);
    const userId = await this.users.create(user, operation);
    this.invitations?.send(userId, user.email);
    return userId;
  }

  override async updateUser(userId: string, { name }: { readonly name: string }, { signal }: ProviderCallOptions): Promise<void> {
    await this.users.update(userId, name, new Operation(signal));
  }

  override async assignRole(userId: string, roleId: string, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    assertUserId(userId);
    await this.roles.assertAssignable([roleId], operation);
    await this.users.giveRoles(userId, [roleId], operation);
  }

  override listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    return this.roles.list(signal);
  }

  override listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    return this.users.list(signal);
  }

  /**
   * Checks everything that the service needs in the tenant and can see (listed at `checkTenant`). Takes one call, at
   * most every ten seconds while there are no problems. While a scope is missing, a new token is requested once a
   * minute to see whether it still is.
   */
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
}
