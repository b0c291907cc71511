import { z } from 'zod';
import { InvalidIdentityValue, ProviderError, ProviderUnavailable, UserAlreadyExists, UserNotFound } from '../../../domain/errors.js';
import type { NewUser, User } from '../../../domain/user.js';
import { type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import type { LeftBehind } from '../provider-api/left-behind.js';
import type { Operation } from '../provider-api/operation.js';
import { notFound, refusalOf, remove, UUID } from './admin-api.js';
import { UPDATE_PASSWORD } from './realm.js';
import { NAMED_ONES } from './realm-admin.js';
import type { NamedRole } from './realm-roles.js';
import { fromKeycloakNames, type KeycloakNames, toKeycloakNames } from './user-name.js';
import { offsetPages } from './offset-pages.js';

/** Begins the ids of users in this service. */
export const USER_PREFIX = 'keycloak|';
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

/** Whether Keycloak dropped the first name, or only the last name that continues it. */
const lacksNames = (user: KeycloakUser, { firstName, lastName }: KeycloakNames): boolean =>
  !user.firstName || (user.firstName === firstName && lastName !== '' && !user.lastName);

/** Keycloak's id of a user. */
export function idOfUser(userId: string): string {
  const id = userId.startsWith(USER_PREFIX) ? userId.slice(USER_PREFIX.length) : '';
  if (!UUID.test(id)) throw new UserNotFound('id');
  return id;
}

/** The users of a realm. */
export class RealmUsers {
  private latestCreation = 0;

  /** @param perPage how many users are read per page. */
  constructor(
    private readonly api: ApiClient,
    private readonly leftBehind: LeftBehind,
    private readonly perPage = 1_000,
  ) {}

  /** Creates a user, whose time of creation identifies them if they must be removed again. Returns Keycloak's id. */
  async create({ email, name }: NewUser, roles: readonly NamedRole[], operation: Operation): Promise<string> {
    await this.leftBehind.free('user', email, operation);
    const createdTimestamp = (this.latestCreation = Math.max(Date.now(), this.latestCreation + 1));
    const body = { username: email, email, ...toKeycloakNames(name), enabled: true, requiredActions: [UPDATE_PASSWORD], createdTimestamp };
    return await this.leftBehind.allOrNothing(
      {
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
            if (id !== undefined) await remove(this.api, `/users/${id}`, attempt);
            return id !== undefined;
          },
        }),
      },
      operation,
    );
  }

  /** Sets a user's name. */
  async update(id: string, name: string, operation: Operation): Promise<void> {
    const path = `/users/${id}`;
    const names = toKeycloakNames(name);
    const answer = await this.api.call({ method: 'PUT', path, body: names, repeatable: true, operation });
    if (answer.status === 400) throw new InvalidIdentityValue('name');
    if (answer.status !== 204) throw notFound(answer);
    const user = await this.api.call({ method: 'GET', path, operation });
    if (user.status === 404) throw notFound(user);
    // Any other difference comes from a later call.
    if (lacksNames(read(user, USER), names) && toUser(read(user, USER)).name !== name) throw new ProviderError(NAME_DROPPED);
  }

  /**
   * Lists all users. A user who is created or deleted in the meantime may or may not be listed; every other user is
   * listed once.
   */
  list(operation: Operation): AsyncGenerator<readonly User[], void, undefined> {
    const read = async (first: number, count: number): Promise<readonly User[]> =>
      (await this.api.get(`/users?briefRepresentation=true&first=${first}&max=${count}`, USERS, operation)).map(toUser);
    return offsetPages(this.perPage, read, ({ userId }) => userId);
  }

  async giveRoles(id: string, roles: readonly NamedRole[], operation: Operation): Promise<void> {
    const path = `/users/${id}/role-mappings/realm`;
    for (let attempt = 0; attempt < ASSIGN_ATTEMPTS; attempt++) {
      const answer = await this.api.call({ method: 'POST', path, body: roles, repeatable: true, operation });
      if (answer.status === 204) return;
      // Simultaneous calls for one user collide (keycloak/keycloak#45434).
      if (answer.status !== 400 && answer.status !== 409) throw notFound(answer);
    }
    const answer = await this.api.call({ method: 'GET', path, operation });
    if (answer.status === 404) throw notFound(answer);
    const given = new Set(read(answer, NAMED_ONES).map((role) => role.id));
    if (!roles.every((role) => given.has(role.id))) throw new ProviderUnavailable('Keycloak does not give the user the roles.');
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
  private async assertAsAsked({ id, email, name }: Pick<NewUser, 'email' | 'name'> & { readonly id: string }, operation: Operation): Promise<void> {
    const users = await this.api.get(`/users?exact=true&email=${encodeURIComponent(email)}`, USERS, operation);
    if (users.some((user) => user.id !== id)) throw new UserAlreadyExists('email');
    const user = users.find((one) => one.id === id);
    if (!user) throw new ProviderError("Keycloak has created a user without the e-mail: see the realm's user profile.");
    if (toUser(user).name !== name) throw new ProviderError(NAME_DROPPED);
  }
}

const isAboutEmail = (body: unknown): boolean => ['email', 'username'].includes(refusalOf(body).field ?? '');
