import type { OnApplicationShutdown } from '@nestjs/common';
import { z } from 'zod';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import { InvalidIdentityValue, ProviderError, ProviderUnavailable, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import { type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import { LeftBehind } from '../provider-api/left-behind.js';
import { Operation } from '../provider-api/operation.js';
import { ProviderHealth } from '../provider-requirements/provider-health.js';
import { type Findings, isHealthy } from '../provider-requirements/requirement.js';
import { adminApi, notFound, refusalOf, UUID } from './admin-api.js';
import { offsetPages } from './offset-pages.js';
import { UPDATE_PASSWORD } from './realm.js';
import { NAMED_ONES } from './realm-admin.js';
import { checkRealm, type RealmCheckOptions } from './realm-check.js';
import { RealmInvitations, type RealmInvitationsOptions } from './realm-invitations.js';
import { type NamedRole, RealmRoles, type RealmRolesOptions } from './realm-roles.js';
import { fromKeycloakNames, type KeycloakNames, toKeycloakNames } from './user-name.js';

export interface KeycloakOptions extends RealmCheckOptions, RealmRolesOptions {
  readonly invitationMail?: RealmInvitationsOptions | undefined;
  /** The length of a page of users, at least 2 (default: 1,000). */
  readonly usersPerPage?: number;
  /** The minimum time between checks of the whole realm while nothing is wrong, in milliseconds (default: 30,000). */
  readonly checkedForMs?: number;
}

const USER_PREFIX = 'keycloak|';
const ASSIGN_ATTEMPTS = 4;

const USER = z.object({
  id: z.string(),
  email: z.string().nullish(),
  firstName: z.string().nullish(),
  lastName: z.string().nullish(),
});
const USERS = z.array(USER);
const CREATED = z.array(z.object({ id: z.string(), createdTimestamp: z.number().nullish() }));

type KeycloakUser = z.infer<typeof USER>;

const NAME_DROPPED = "Keycloak has dropped a user's name: see the attributes firstName and lastName of the realm's user profile.";

const toUser = ({ id, email, firstName, lastName }: KeycloakUser): User => ({
  userId: USER_PREFIX + id,
  name: fromKeycloakNames(firstName ?? '', lastName ?? '') || (email ?? ''),
  email: email ?? '',
});

const lacksNames = (user: KeycloakUser, { firstName, lastName }: KeycloakNames): boolean =>
  !user.firstName || (user.firstName === firstName && lastName !== '' && !user.lastName);

/**
 * A realm of Keycloak 26 or newer as identity provider. A permission is a client role of the API. A role is a realm
 * role with the attribute `load_data_role`, composed of permissions. A display name is the first name; the end of a
 * long one is the last name. A role name of more than 255 UTF-16 units is refused, because Keycloak has no room for it.
 * A new user has no password and must set one at the first login.
 */
export class KeycloakIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly api: ApiClient;
  private readonly leftBehind = new LeftBehind();
  private readonly roles: RealmRoles;
  private readonly invitations: RealmInvitations | undefined;
  private readonly health = new ProviderHealth('Keycloak', (previous, operation) => this.look(previous, operation));
  private latestCreation = 0;
  private checkedAt = -Infinity;

  constructor(private readonly options: KeycloakOptions) {
    super();
    this.api = adminApi(options);
    this.roles = new RealmRoles(this.api, this.leftBehind, options);
    this.invitations = options.invitationMail && new RealmInvitations(this.api, options.invitationMail);
  }

  override createRole(role: NewRole, { signal }: ProviderCallOptions): Promise<string> {
    return this.roles.create(role, new Operation(signal));
  }

  override async createUser({ email, name, roleIds }: NewUser, { signal }: ProviderCallOptions): Promise<string> {
    const operation = new Operation(signal);
    const roles = await this.roles.assignable(roleIds, operation);
    await this.leftBehind.free('user', email, operation);
    // The creation time is unique in this process, so that the user can be removed even if Keycloak's answer is lost.
    const createdTimestamp = (this.latestCreation = Math.max(Date.now(), this.latestCreation + 1));
    const body = { username: email, email, ...toKeycloakNames(name), enabled: true, requiredActions: [UPDATE_PASSWORD], createdTimestamp };
    const id = await this.leftBehind.allOrNothing({
      operation,
      what: 'user',
      name: email,
      create: async () => {
        const answer = await this.api.call({ method: 'POST', path: '/users', body, operation });
        if (answer.status === 409) throw new UserAlreadyExists('email');
        if (answer.status === 400) throw new InvalidIdentityValue(isAboutEmail(answer.body) ? 'email' : 'name');
        const id = answer.location.split('/').at(-1) ?? '';
        if (answer.status !== 201 || !UUID.test(id)) throw unexpected(answer);
        return id;
      },
      complete: async (id) => {
        await Promise.all([this.assertAsAsked({ id, email, name }, operation), roles.length > 0 ? this.giveRoles(id, roles, operation) : undefined]);
        return id;
      },
      undo: (created) => ({
        trace: { createdTimestamp },
        remove: async (attempt) => {
          const id = created ?? (await this.idOfCreated(email, createdTimestamp, attempt));
          if (id !== undefined) await this.api.remove(`/users/${id}`, attempt);
          return id !== undefined;
        },
      }),
    });
    this.invitations?.send(id, email);
    return USER_PREFIX + id;
  }

  override async updateUser(userId: string, { name }: { readonly name: string }, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    const path = `/users/${idOfUser(userId)}`;
    const names = toKeycloakNames(name);
    const answer = await this.api.call({ method: 'PUT', path, body: names, repeatable: true, operation });
    if (answer.status === 400) throw new InvalidIdentityValue('name');
    if (answer.status !== 204) throw notFound(answer);
    const user = await this.api.call({ method: 'GET', path, operation });
    if (user.status === 404) throw notFound(user);
    // If Keycloak dropped a part of the name, that is an error. A different whole name was set by another update since.
    if (lacksNames(read(user, USER), names) && toUser(read(user, USER)).name !== name) throw new ProviderError(NAME_DROPPED);
  }

  override async assignRole(userId: string, roleId: string, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    const id = idOfUser(userId);
    await this.giveRoles(id, await this.roles.assignable([roleId], operation), operation);
  }

  override listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    return this.roles.list(new Operation(signal));
  }

  override listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    const operation = new Operation(signal);
    const read = async (first: number, count: number): Promise<readonly User[]> =>
      (await this.api.get(`/users?briefRepresentation=true&first=${first}&max=${count}`, USERS, operation)).map(toUser);
    return offsetPages(this.options.usersPerPage ?? 1_000, read, ({ userId }) => userId);
  }

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
    if (previous && isHealthy(previous) && isRecent && (await this.hasApi(operation))) return previous;
    // The time is noted before the check, so that a check that is too slow isn't repeated at once if nothing was wrong
    // before. Until the next one, health checks make only one call, which may end in time.
    this.checkedAt = performance.now();
    return await checkRealm(this.api, this.options, operation);
  }

  private async hasApi(operation: Operation): Promise<boolean> {
    try {
      await this.roles.idOfApi(operation);
      return true;
    } catch (error) {
      if (error instanceof ProviderError) return false;
      throw error;
    }
  }

  private async giveRoles(id: string, roles: readonly NamedRole[], operation: Operation): Promise<void> {
    const path = `/users/${id}/role-mappings/realm`;
    for (let attempt = 0; attempt < ASSIGN_ATTEMPTS; attempt++) {
      const answer = await this.api.call({ method: 'POST', path, body: roles, repeatable: true, operation });
      if (answer.status === 204) return;
      // Keycloak may answer 400 or 409 when simultaneous calls assign roles to one user (keycloak/keycloak#45434).
      if (answer.status !== 400 && answer.status !== 409) throw notFound(answer);
    }
    const answer = await this.api.call({ method: 'GET', path, operation });
    if (answer.status === 404) throw notFound(answer);
    const given = new Set(read(answer, NAMED_ONES).map((role) => role.id));
    if (!roles.every((role) => given.has(role.id))) throw new ProviderUnavailable('Keycloak did not assign the roles to the user.');
  }

  private async idOfCreated(email: string, createdTimestamp: number, operation: Operation): Promise<string | undefined> {
    const found = await this.api.get(`/users?exact=true&email=${encodeURIComponent(email)}`, CREATED, operation);
    return found.find((user) => user.createdTimestamp === createdTimestamp)?.id;
  }

  /**
   * Checks a new user. Keycloak drops attributes that the realm's user profile doesn't have. If the realm allows
   * duplicate e-mails, Keycloak also accepts that of another user. Which user came first is unknown then, so the
   * creation fails.
   */
  private async assertAsAsked({ id, email, name }: Pick<NewUser, 'email' | 'name'> & { readonly id: string }, operation: Operation): Promise<void> {
    const users = await this.api.get(`/users?briefRepresentation=true&exact=true&email=${encodeURIComponent(email)}`, USERS, operation);
    if (users.some((user) => user.id !== id)) throw new UserAlreadyExists('email');
    const user = users.find((one) => one.id === id);
    if (!user) throw new ProviderError("Keycloak has created a user without the e-mail: see the realm's user profile.");
    if (toUser(user).name !== name) throw new ProviderError(NAME_DROPPED);
  }
}

function idOfUser(userId: string): string {
  const id = userId.startsWith(USER_PREFIX) ? userId.slice(USER_PREFIX.length) : '';
  if (!UUID.test(id)) throw new UserNotFound('id');
  return id;
}

const isAboutEmail = (body: unknown): boolean => ['email', 'username'].includes(refusalOf(body).field ?? '');
