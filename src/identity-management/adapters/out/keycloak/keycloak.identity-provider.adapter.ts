import type { OnApplicationShutdown } from '@nestjs/common';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { ProviderError } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import type { ApiClient } from '../provider-api/api-client.js';
import { LeftBehind } from '../provider-api/left-behind.js';
import { Operation } from '../provider-api/operation.js';
import { ProviderHealth } from '../provider-requirements/provider-health.js';
import { type Findings, isWell } from '../provider-requirements/requirement.js';
import { adminApi, type KeycloakConnection } from './admin-api.js';
import { checkRealm } from './realm-check.js';
import { RealmInvitations, type RealmInvitationsOptions } from './realm-invitations.js';
import { RealmRoles, type RealmRolesOptions } from './realm-roles.js';
import { idOfUser, RealmUsers, USER_PREFIX } from './realm-users.js';

export interface KeycloakOptions extends KeycloakConnection, RealmRolesOptions {
  /** The expected `iss` of tokens. Default: the realm's URL. */
  readonly issuer?: string | undefined;
  /** Settings for mails to new users. No mails are sent if undefined. */
  readonly invitationMail?: RealmInvitationsOptions | undefined;
  /** The public client of Swagger UI, if there should be one. */
  readonly swaggerUiClientId?: string | undefined;
  /** How many users are read per page (default: 1,000). */
  readonly usersPerPage?: number;
  /** How long a clean check of the whole realm stays valid, in milliseconds (default: 30,000). */
  readonly checkedForMs?: number;
}

/**
 * A realm of Keycloak 26 or newer. A permission is a client role of the API; a role is a composite realm role; a
 * display name is the first name. A role name of more than 255 UTF-16 units is refused, because Keycloak has no room
 * for it.
 *
 * A new user has no password and must set one at the first login. `invitationMail` sends a link for that. A user or
 * role whose creation fails is removed again, after the answer if necessary. A role is then identified by its
 * description, a user by the time of creation.
 */
export class KeycloakIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly api: ApiClient;
  private readonly leftBehind = new LeftBehind();
  private readonly roles: RealmRoles;
  private readonly users: RealmUsers;
  private readonly invitations: RealmInvitations | undefined;
  private readonly health = new ProviderHealth('Keycloak', (previous, operation) => this.look(previous, operation));
  /** When everything that the service needs in the realm was last checked. */
  private checkedAt = -Infinity;

  constructor(private readonly options: KeycloakOptions) {
    super();
    this.api = adminApi(options);
    this.roles = new RealmRoles(this.api, this.leftBehind, options);
    this.users = new RealmUsers(this.api, this.leftBehind, options.usersPerPage);
    this.invitations = options.invitationMail && new RealmInvitations(this.api, options.invitationMail);
  }

  override createRole(role: NewRole, { signal }: ProviderCallOptions): Promise<string> {
    return this.roles.create(role, new Operation(signal));
  }

  override async createUser(user: NewUser, { signal }: ProviderCallOptions): Promise<string> {
    const operation = new Operation(signal);
    const id = await this.users.create(user, await this.roles.assignable(user.roleIds, operation), operation);
    this.invitations?.send(id, user.email);
    return USER_PREFIX + id;
  }

  override async updateUser(userId: string, { name }: { readonly name: string }, { signal }: ProviderCallOptions): Promise<void> {
    await this.users.update(idOfUser(userId), name, new Operation(signal));
  }

  override async assignRole(userId: string, roleId: string, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    const id = idOfUser(userId);
    await this.users.giveRoles(id, await this.roles.assignable([roleId], operation), operation);
  }

  override listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    return this.roles.list(new Operation(signal));
  }

  override listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    return this.users.list(new Operation(signal));
  }

  /**
   * Checks everything that the service needs in the realm (listed at `checkRealm`) until nothing is wrong. After that,
   * repeats the whole check every half minute. In between, checks only whether Keycloak answers and has the API's
   * client.
   */
  override async checkHealth({ signal }: ProviderCallOptions): Promise<void> {
    await this.health.check(signal);
  }

  override get warnings(): readonly string[] {
    return this.health.warnings;
  }

  async onApplicationShutdown(): Promise<void> {
    this.leftBehind.close();
    await this.api.close();
    await this.invitations?.close();
  }

  private async look(previous: Findings | undefined, operation: Operation): Promise<Findings> {
    const isRecent = performance.now() - this.checkedAt < (this.options.checkedForMs ?? 30_000);
    if (previous && isWell(previous) && isRecent && (await this.hasApi(operation))) return previous;
    // Set before the check. If the whole check is too slow to answer in time, the next ones need only one call, which
    // may succeed.
    this.checkedAt = performance.now();
    return await checkRealm(this.api, this.options, operation);
  }

  /** Whether the realm seems unchanged, judging by one call. False if someone may have to fix something. */
  private async hasApi(operation: Operation): Promise<boolean> {
    try {
      await this.roles.idOfApi(operation);
      return true;
    } catch (error) {
      if (error instanceof ProviderError) return false;
      throw error;
    }
  }
}
