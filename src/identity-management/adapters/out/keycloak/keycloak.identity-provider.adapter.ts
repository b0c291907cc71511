import { randomUUID } from 'node:crypto';
import type { OnApplicationShutdown } from '@nestjs/common';
import { z } from 'zod';
import type { ServiceError } from '../../../../common/service-error.js';
import { IdentityProvider, type ProviderCallOptions } from '../../../application/ports/identity-provider.port.js';
import {
  InvalidIdentityValue,
  ProviderError,
  ProviderUnavailable,
  RoleAlreadyExists,
  RoleNotFound,
  UserAlreadyExists,
  UserNotFound,
} from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import type { NewUser, User } from '../../../domain/user.js';
import { type ApiAnswer, type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import { toNothingDone } from '../provider-api/api-failure.js';
import { LeftBehind } from '../provider-api/left-behind.js';
import { Operation } from '../provider-api/operation.js';
import { WHOLE_LIST_TIMEOUT_MS } from '../provider-api/time-budget.js';
import { ProviderHealth } from '../provider-requirements/provider-health.js';
import { type Findings, isWell } from '../provider-requirements/requirement.js';
import { InvitationMail, type InvitationMailOptions } from './invitation-mail.js';
import { adminApi, type KeycloakConnection } from './keycloak-connection.js';
import { composedRole, ROLE_ATTRIBUTE, UPDATE_PASSWORD } from './realm.js';
import { checkRealm } from './realm-check.js';
import { fromKeycloakNames, type KeycloakNames, toKeycloakNames } from './user-name.js';
import { offsetPages } from './user-pages.js';

export interface KeycloakOptions extends KeycloakConnection {
  /** The `clientId` of the API, whose client roles are the permissions. */
  readonly audience: string;
  /** The expected `iss` of tokens. Default: the realm's URL. */
  readonly issuer?: string | undefined;
  /** Settings for mails to new users. No mails are sent if undefined. */
  readonly invitationMail?: InvitationMailOptions | undefined;
  /** The public client of Swagger UI, if there should be one. */
  readonly swaggerUiClientId?: string | undefined;
  /** How many users are read per page (default: 1,000). */
  readonly usersPerPage?: number;
  /** How long a clean check of the whole realm stays valid, in milliseconds (default: 30,000). */
  readonly checkedForMs?: number;
  /**
   * How long a read of all roles at once may take before they are read page by page, in milliseconds (default: 2,000).
   */
  readonly allRolesTimeoutMs?: number;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const USER_PREFIX = 'keycloak|';
/** The size of Keycloak's column for role names, in UTF-16 units. */
const MAX_ROLE_NAME_UNITS = 255;
const ASSIGN_ATTEMPTS = 4;
const CALLS_AT_ONCE = 8;
/** With more roles than this, all roles of the realm are read at once. One call per role would take too long. */
const MAX_LOOK_UPS = 32;
const ALL_ROLES_PATH = '/roles?briefRepresentation=false';
const ROLES_PER_PAGE = 100;
const ROLES_IN_PAGES_FOR_MS = 600_000;

const ROLE = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string().nullish(),
  composite: z.boolean().nullish(),
  clientRole: z.boolean().nullish(),
  attributes: z.object({ [ROLE_ATTRIBUTE]: z.array(z.string().nullable()).nullish() }).nullish(),
});
const ROLES = z.array(ROLE);
const NAMED = z.array(z.object({ id: z.string(), name: z.string() }));
const CLIENTS = z.array(z.object({ id: z.string() }));
const USER = z.object({
  id: z.string(),
  email: z.string().nullish(),
  firstName: z.string().nullish(),
  lastName: z.string().nullish(),
});
const USERS = z.array(USER);
const CREATED = z.array(z.object({ id: z.string(), createdTimestamp: z.number().nullish() }));
const REFUSAL = z.object({ error: z.string().optional(), errorMessage: z.string().optional(), field: z.string().optional() });

type KeycloakRole = z.infer<typeof ROLE>;
type KeycloakUser = z.infer<typeof USER>;
type NamedRole = Pick<KeycloakRole, 'id' | 'name'>;

const NAME_DROPPED = "Keycloak has dropped a user's name: see the attributes firstName and lastName of the realm's user profile.";

const toUser = ({ id, email, firstName, lastName }: KeycloakUser): User => ({
  userId: USER_PREFIX + id,
  name: fromKeycloakNames(firstName ?? '', lastName ?? '') || (email ?? ''),
  email: email ?? '',
});

/** Whether Keycloak dropped the first name, or only the last name that continues it. */
const lacksNames = (user: KeycloakUser, { firstName, lastName }: KeycloakNames): boolean =>
  !user.firstName || (user.firstName === firstName && lastName !== '' && !user.lastName);

const isOurs = ({ clientRole, attributes }: KeycloakRole): boolean =>
  clientRole !== true && attributes?.[ROLE_ATTRIBUTE]?.includes('true') === true;

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
  private readonly invitationMail: InvitationMail | undefined;
  private readonly health = new ProviderHealth('Keycloak', (previous, operation) => this.look(previous, operation));
  private latestCreation = 0;
  private rolesInPagesUntil = -Infinity;
  /** When everything that the service needs in the realm was last checked. */
  private checkedAt = -Infinity;

  constructor(private readonly options: KeycloakOptions) {
    super();
    this.api = adminApi(options);
    this.invitationMail = options.invitationMail && new InvitationMail(this.api, options.invitationMail);
  }

  override async createRole({ name, permissions }: NewRole, { signal }: ProviderCallOptions): Promise<string> {
    const operation = new Operation(signal);
    if (name.length > MAX_ROLE_NAME_UNITS) throw new InvalidIdentityValue('role name');
    const description = `Created by the load-data service, ${randomUUID()}`;
    const body = { ...composedRole(name, this.options.audience, permissions), description };
    const post = (): Promise<ApiAnswer> => this.api.call({ method: 'POST', path: '/roles', body, operation });
    const create = async (): Promise<ApiAnswer> => {
      let answer = await post();
      if (answer.status === 404) {
        await this.makePermissions(permissions, operation).catch(toNothingDone);
        answer = await post();
      }
      if (answer.status === 409) throw new RoleAlreadyExists('role name');
      if (answer.status !== 201) throw unexpected(answer);
      return answer;
    };
    const complete = async (): Promise<string> => {
      const role = await this.createdRole(name, description, operation);
      if (!role) throw new ProviderError('Keycloak does not have the role that it has created.');
      // Keycloak ignores the permissions if the API's client is missing.
      if (permissions.length > 0 && !role.composite) throw new ProviderError('Keycloak has created the role without its permissions.');
      return role.id;
    };
    const remove = async (attempt: Operation): Promise<boolean> => {
      const role = await this.createdRole(name, description, attempt);
      if (role) await this.remove(`/roles-by-id/${role.id}`, attempt);
      return role !== undefined;
    };
    await this.leftBehind.free('role', name, operation);
    return await this.leftBehind.allOrNothing({ what: 'role', name, create, complete, undo: () => ({ trace: { description }, remove }) }, operation);
  }

  override async createUser({ email, name, roleIds }: NewUser, { signal }: ProviderCallOptions): Promise<string> {
    const operation = new Operation(signal);
    for (const roleId of roleIds) assertUuid(roleId, RoleNotFound);
    const roles = await this.roles(roleIds, operation);
    await this.leftBehind.free('user', email, operation);
    // Identifies a user whose creation got no answer.
    const createdTimestamp = (this.latestCreation = Math.max(Date.now(), this.latestCreation + 1));
    const body = { username: email, email, ...toKeycloakNames(name), enabled: true, requiredActions: [UPDATE_PASSWORD], createdTimestamp };
    const create = async (): Promise<string> => {
      const answer = await this.api.call({ method: 'POST', path: '/users', body, operation });
      if (answer.status === 409) throw new UserAlreadyExists('email');
      if (answer.status === 400) throw new InvalidIdentityValue(isAboutEmail(answer) ? 'email' : 'name');
      const id = answer.location.split('/').at(-1) ?? '';
      if (answer.status !== 201 || !UUID.test(id)) throw unexpected(answer);
      return id;
    };
    const complete = async (id: string): Promise<string> => {
      await Promise.all([this.assertAsAsked({ id, email, name }, operation), roles.length > 0 ? this.giveRoles(id, roles, operation) : undefined]);
      return id;
    };
    const undo = (created: string | undefined) => ({
      trace: { createdTimestamp },
      remove: async (attempt: Operation): Promise<boolean> => {
        const id = created ?? (await this.idOfCreated(email, createdTimestamp, attempt));
        if (id !== undefined) await this.remove(`/users/${id}`, attempt);
        return id !== undefined;
      },
    });
    const id = await this.leftBehind.allOrNothing({ what: 'user', name: email, create, complete, undo }, operation);
    this.invitationMail?.send(id);
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
    // Any other difference comes from a later call.
    if (lacksNames(read(user, USER), names) && toUser(read(user, USER)).name !== name) throw new ProviderError(NAME_DROPPED);
  }

  override async assignRole(userId: string, roleId: string, { signal }: ProviderCallOptions): Promise<void> {
    const operation = new Operation(signal);
    const id = idOfUser(userId);
    assertUuid(roleId, RoleNotFound);
    await this.giveRoles(id, await this.roles([roleId], operation), operation);
  }

  /** Lists all roles. A role that is created or deleted in the meantime may or may not be listed. */
  override async *listRoles({ signal }: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    for await (const page of this.rolePages(new Operation(signal))) yield page.filter(isOurs).map(({ id, name }) => ({ roleId: id, name }));
  }

  /**
   * Lists all users. A user who is created or deleted in the meantime may or may not be listed; every other user is
   * listed once.
   */
  override listUsers({ signal }: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    const operation = new Operation(signal);
    const read = async (first: number, count: number): Promise<readonly User[]> =>
      (await this.api.get(`/users?briefRepresentation=true&first=${first}&max=${count}`, USERS, operation)).map(toUser);
    return offsetPages(this.options.usersPerPage ?? 1_000, read, ({ userId }) => userId);
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
    await this.invitationMail?.close();
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
      await this.idOfApi(operation);
      return true;
    } catch (error) {
      if (error instanceof ProviderError) return false;
      throw error;
    }
  }

  /** Keycloak's internal id of the API's client. */
  private async idOfApi(operation: Operation): Promise<string> {
    const [api] = await this.api.get(`/clients?clientId=${encodeURIComponent(this.options.audience)}`, CLIENTS, operation);
    if (!api) throw new ProviderError('The realm has no client for the API (OIDC_AUDIENCE).');
    return api.id;
  }

  /**
   * Reads all roles of the realm at once. That takes Keycloak milliseconds if it has them cached. Otherwise the time
   * grows with the square of their number, and they are read page by page.
   */
  private async *rolePages(operation: Operation): AsyncGenerator<readonly KeycloakRole[], void, undefined> {
    const all = await this.allRoles(operation);
    const read = (first: number, count: number) => this.api.get(`${ALL_ROLES_PATH}&first=${first}&max=${count}`, ROLES, operation);
    yield* all ? [all] : offsetPages(ROLES_PER_PAGE, read, ({ id }) => id);
  }

  /**
   * Undefined when they take too long. Keycloak finishes a request even if nobody waits for it, so after a timeout this
   * isn't tried again for ten minutes.
   */
  private async allRoles(operation: Operation): Promise<KeycloakRole[] | undefined> {
    if (performance.now() < this.rolesInPagesUntil) return undefined;
    // Fetched first, because a slow token mustn't count as slow roles.
    await this.api.token.get(operation.signal);
    const patience = AbortSignal.timeout(this.options.allRolesTimeoutMs ?? WHOLE_LIST_TIMEOUT_MS);
    try {
      return await this.api.getAgain(ALL_ROLES_PATH, ROLES, new Operation(AbortSignal.any([operation.signal, patience])));
    } catch (error) {
      if (operation.signal.aborted || !patience.aborted) throw error;
      this.rolesInPagesUntil = performance.now() + ROLES_IN_PAGES_FOR_MS;
      return undefined;
    }
  }

  private async makePermissions(permissions: readonly string[], operation: Operation): Promise<void> {
    const path = `/clients/${await this.idOfApi(operation)}/roles`;
    const present = new Set((await this.api.get(path, NAMED, operation)).map(({ name }) => name));
    const absent = permissions.filter((permission) => !present.has(permission));
    const make = async (name: string): Promise<void> => {
      const answer = await this.api.call({ method: 'POST', path, body: { name }, repeatable: true, operation });
      // A concurrent call may just have created it.
      if (answer.status !== 201 && answer.status !== 409) throw unexpected(answer);
    };
    for (let start = 0; start < absent.length; start += CALLS_AT_ONCE) {
      await Promise.all(absent.slice(start, start + CALLS_AT_ONCE).map(make));
    }
  }

  /** The role with this name, if it has this description. A role created by others counts as missing. */
  private async createdRole(name: string, description: string, operation: Operation): Promise<KeycloakRole | undefined> {
    // These names have a different meaning in a path, encoded or not.
    const isDots = name === '.' || name === '..';
    if (isDots) {
      const roles = await this.api.get('/roles?briefRepresentation=true', ROLES, operation);
      return roles.find((one) => one.name === name && one.description === description);
    }
    const answer = await this.api.call({ method: 'GET', path: `/roles/${encodeURIComponent(name)}`, operation });
    // Any other 404 says nothing about the role.
    if (answer.status === 404 && notFound(answer) instanceof RoleNotFound) return undefined;
    const role = read(answer, ROLE);
    return role.description === description ? role : undefined;
  }

  /**
   * Reads the roles' current state, because a role may have become unassignable.
   *
   * @throws RoleNotFound also for a role that the service doesn't manage.
   */
  private async roles(ids: readonly string[], operation: Operation): Promise<readonly NamedRole[]> {
    if (ids.length > MAX_LOOK_UPS) return await this.rolesOfAll(ids, operation);
    const roles: NamedRole[] = [];
    for (let start = 0; start < ids.length; start += CALLS_AT_ONCE) {
      roles.push(...(await Promise.all(ids.slice(start, start + CALLS_AT_ONCE).map((id) => this.role(id, operation)))));
    }
    return roles;
  }

  private async rolesOfAll(ids: readonly string[], operation: Operation): Promise<readonly NamedRole[]> {
    const unseen = new Set(ids);
    const roles: NamedRole[] = [];
    for await (const page of this.rolePages(operation)) {
      for (const { id, name } of page.filter((role) => isOurs(role) && unseen.delete(role.id))) roles.push({ id, name });
    }
    if (unseen.size > 0) throw new RoleNotFound('role_id');
    return roles;
  }

  private async role(id: string, operation: Operation): Promise<NamedRole> {
    const answer = await this.api.call({ method: 'GET', path: `/roles-by-id/${id}`, operation });
    if (answer.status === 404) throw notFound(answer);
    const role = read(answer, ROLE);
    if (!isOurs(role)) throw new RoleNotFound('role_id');
    return { id: role.id, name: role.name };
  }

  /** The id of the user with this e-mail and creation time; undefined if there is none. */
  private async idOfCreated(email: string, createdTimestamp: number, operation: Operation): Promise<string | undefined> {
    const found = await this.api.get(`/users?exact=true&email=${encodeURIComponent(email)}`, CREATED, operation);
    return found.find((user) => user.createdTimestamp === createdTimestamp)?.id;
  }

  /**
   * Reads a new user back. Keycloak drops attributes for which the realm's user profile has no room. It also accepts an
   * e-mail that is in use if the realm allows duplicates. It can't be determined which of the two users came first
   * then, so ours is removed.
   *
   * @throws UserAlreadyExists, ProviderError
   */
  private async assertAsAsked({ id, email, name }: { readonly id: string; readonly email: string; readonly name: string }, operation: Operation): Promise<void> {
    const users = await this.api.get(`/users?exact=true&email=${encodeURIComponent(email)}`, USERS, operation);
    if (users.some((user) => user.id !== id)) throw new UserAlreadyExists('email');
    const user = users.find((one) => one.id === id);
    if (!user) throw new ProviderError("Keycloak has created a user without the e-mail: see the realm's user profile.");
    if (toUser(user).name !== name) throw new ProviderError(NAME_DROPPED);
  }

  private async remove(path: string, operation: Operation): Promise<void> {
    const answer = await this.api.call({ method: 'DELETE', path, repeatable: true, operation });
    if (answer.status !== 204 && answer.status !== 404) throw unexpected(answer);
  }

  private async giveRoles(userId: string, roles: readonly NamedRole[], operation: Operation): Promise<void> {
    const path = `/users/${userId}/role-mappings/realm`;
    for (let attempt = 0; attempt < ASSIGN_ATTEMPTS; attempt++) {
      const answer = await this.api.call({ method: 'POST', path, body: roles, repeatable: true, operation });
      if (answer.status === 204) return;
      // Simultaneous calls for one user collide (keycloak/keycloak#45434).
      if (answer.status !== 400 && answer.status !== 409) throw notFound(answer);
    }
    const answer = await this.api.call({ method: 'GET', path, operation });
    if (answer.status === 404) throw notFound(answer);
    const given = new Set(read(answer, NAMED).map(({ id }) => id));
    if (!roles.every(({ id }) => given.has(id))) throw new ProviderUnavailable('Keycloak does not give the user the roles.');
  }
}

function assertUuid(id: string, Unknown: typeof RoleNotFound | typeof UserNotFound): void {
  if (!UUID.test(id)) throw new Unknown('id');
}

/** @throws UserNotFound when the id doesn't have Keycloak's form. */
function idOfUser(userId: string): string {
  const id = userId.startsWith(USER_PREFIX) ? userId.slice(USER_PREFIX.length) : '';
  assertUuid(id, UserNotFound);
  return id;
}

const MISSING: readonly (readonly [RegExp, typeof RoleNotFound | typeof UserNotFound])[] = [
  [/^User not found/, UserNotFound],
  [/^(Role not found|Could not find role)/, RoleNotFound],
];

/**
 * The error for a 404, by the thing that Keycloak reports as missing. A missing realm or path breaks the contract, as
 * does any other status.
 */
function notFound(answer: ApiAnswer): ServiceError {
  const { error = '' } = REFUSAL.safeParse(answer.body).data ?? {};
  const row = answer.status === 404 ? MISSING.find(([text]) => text.test(error)) : undefined;
  return row ? new row[1]('id') : unexpected(answer);
}

const isAboutEmail = ({ body }: ApiAnswer): boolean => ['email', 'username'].includes(REFUSAL.safeParse(body).data?.field ?? '');
