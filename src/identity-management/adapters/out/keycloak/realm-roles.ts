import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { InvalidIdentityValue, ProviderError, RoleAlreadyExists, RoleNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import { type ProviderAnswer, type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import { toNothingDone } from '../provider-api/api-failure.js';
import type { LeftBehind } from '../provider-api/left-behind.js';
import { Operation } from '../provider-api/operation.js';
import { WHOLE_LIST_TIMEOUT_MS } from '../provider-api/time-budget.js';
import { notFound, UUID } from './admin-api.js';
import { composedRole, ROLE_ATTRIBUTE } from './realm.js';
import { NAMED_ONES } from './realm-admin.js';
import { offsetPages } from './offset-pages.js';

export interface RealmRolesOptions {
  readonly audience: string;
  /** The time limit for one read of all roles, in milliseconds (default: 2,000). Then they are read page by page. */
  readonly allRolesTimeoutMs?: number;
}

/** The maximum length of a role's name in Keycloak's database. */
const MAX_ROLE_NAME_UNITS = 255;
const CALLS_AT_ONCE = 8;
/** The most roles that are read with one call each. For more, that would take too long. */
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
const CLIENTS = z.array(z.object({ id: z.string() }));

type KeycloakRole = z.infer<typeof ROLE>;
/** The id and name of a role. Keycloak needs both to assign the role. */
export type NamedRole = Pick<KeycloakRole, 'id' | 'name'>;

const isOurs = ({ clientRole, attributes }: KeycloakRole): boolean =>
  clientRole !== true && attributes?.[ROLE_ATTRIBUTE]?.includes('true') === true;

/** The roles of a realm that the service manages: the realm roles whose attribute `load_data_role` is `true`. */
export class RealmRoles {
  private rolesInPagesUntil = -Infinity;

  constructor(
    private readonly api: ApiClient,
    private readonly leftBehind: LeftBehind,
    private readonly options: RealmRolesOptions,
  ) {}

  /** Creates a role and returns its id. The description has a random part, which identifies the role for removal. */
  async create({ name, permissions }: NewRole, operation: Operation): Promise<string> {
    if (name.length > MAX_ROLE_NAME_UNITS) throw new InvalidIdentityValue('role name');
    const description = `Created by the load-data service, ${randomUUID()}`;
    const body = { ...composedRole(name, this.options.audience, permissions), description };
    const post = (): Promise<ProviderAnswer> => this.api.call({ method: 'POST', path: '/roles', body, operation });
    await this.leftBehind.free('role', name, operation);
    return await this.leftBehind.allOrNothing({
      operation,
      what: 'role',
      name,
      create: async () => {
        let answer = await post();
        if (answer.status === 404) {
          await this.makePermissions(permissions, operation).catch(toNothingDone);
          answer = await post();
        }
        if (answer.status === 409) throw new RoleAlreadyExists('role name');
        if (answer.status !== 201) throw unexpected(answer);
        return answer;
      },
      complete: async () => {
        const role = await this.created(name, description, operation);
        if (!role) throw new ProviderError('Keycloak does not have the role that it has created.');
        // If the client that represents the API is missing, Keycloak creates the role without permissions.
        if (permissions.length > 0 && !role.composite) throw new ProviderError('Keycloak has created the role without its permissions.');
        return role.id;
      },
      undo: () => ({
        trace: { description },
        remove: async (attempt) => {
          const role = await this.created(name, description, attempt);
          if (role) await this.api.remove(`/roles-by-id/${role.id}`, attempt);
          return role !== undefined;
        },
      }),
    });
  }

  /** Lists the service's roles. A role that is created or deleted meanwhile may or may not be listed. */
  async *list(operation: Operation): AsyncGenerator<readonly Role[], void, undefined> {
    for await (const page of this.pages(operation)) yield page.filter(isOurs).map(({ id, name }) => ({ roleId: id, name }));
  }

  /**
   * Returns the roles with these ids. Reads them again each time, because a role may have been deleted or changed.
   *
   * @throws RoleNotFound when one of the roles doesn't exist, or isn't managed by the service.
   */
  async assignable(ids: readonly string[], operation: Operation): Promise<readonly NamedRole[]> {
    if (!ids.every((id) => UUID.test(id))) throw new RoleNotFound('id');
    if (ids.length > MAX_LOOK_UPS) return await this.assignableOfAll(ids, operation);
    const roles: NamedRole[] = [];
    for (let start = 0; start < ids.length; start += CALLS_AT_ONCE) {
      roles.push(...(await Promise.all(ids.slice(start, start + CALLS_AT_ONCE).map((id) => this.role(id, operation)))));
    }
    return roles;
  }

  /**
   * Keycloak's internal id of the API's client.
   *
   * @throws ProviderError when there is no such client; otherwise as `ApiClient.get`.
   */
  async idOfApi(operation: Operation): Promise<string> {
    const [api] = await this.api.get(`/clients?clientId=${encodeURIComponent(this.options.audience)}`, CLIENTS, operation);
    if (!api) throw new ProviderError('The realm has no client for the API (OIDC_AUDIENCE).');
    return api.id;
  }

  /**
   * Reads all roles, with one call if possible. That takes milliseconds if Keycloak has the roles in its cache.
   * Otherwise, its time grows with the square of the number of roles.
   */
  private async *pages(operation: Operation): AsyncGenerator<readonly KeycloakRole[], void, undefined> {
    const all = await this.all(operation);
    const read = (first: number, count: number) => this.api.get(`${ALL_ROLES_PATH}&first=${first}&max=${count}`, ROLES, operation);
    yield* all ? [all] : offsetPages(ROLES_PER_PAGE, read, ({ id }) => id);
  }

  /**
   * Reads all roles with one call. Undefined if the call takes too long, or one did in the last ten minutes: Keycloak
   * goes on working on a request that nobody waits for.
   */
  private async all({ signal }: Operation): Promise<KeycloakRole[] | undefined> {
    if (performance.now() < this.rolesInPagesUntil) return undefined;
    // The token is fetched before the read's time limit begins, so that a slow token isn't mistaken for a slow read.
    await this.api.token.get(signal);
    const patience = AbortSignal.timeout(this.options.allRolesTimeoutMs ?? WHOLE_LIST_TIMEOUT_MS);
    try {
      return await this.api.getAgain(ALL_ROLES_PATH, ROLES, new Operation(AbortSignal.any([signal, patience])));
    } catch (error) {
      if (signal.aborted || !patience.aborted) throw error;
      this.rolesInPagesUntil = performance.now() + ROLES_IN_PAGES_FOR_MS;
      return undefined;
    }
  }

  private async makePermissions(permissions: readonly string[], operation: Operation): Promise<void> {
    const path = `/clients/${await this.idOfApi(operation)}/roles`;
    const present = new Set((await this.api.get(path, NAMED_ONES, operation)).map(({ name }) => name));
    const absent = permissions.filter((permission) => !present.has(permission));
    const make = async (name: string): Promise<void> => {
      const answer = await this.api.call({ method: 'POST', path, body: { name }, repeatable: true, operation });
      // 409: another call may have created the permission at the same time.
      if (answer.status !== 201 && answer.status !== 409) throw unexpected(answer);
    };
    for (let start = 0; start < absent.length; start += CALLS_AT_ONCE) {
      await Promise.all(absent.slice(start, start + CALLS_AT_ONCE).map(make));
    }
  }

  /** The role with this name and description. Others may have created one of the same name with another description. */
  private async created(name: string, description: string, operation: Operation): Promise<KeycloakRole | undefined> {
    // Roles called `.` or `..` can't be read by path: these names have a special meaning in a URL, encoded or not.
    const isDots = name === '.' || name === '..';
    if (isDots) {
      const roles = await this.api.get('/roles?briefRepresentation=true', ROLES, operation);
      return roles.find((one) => one.name === name && one.description === description);
    }
    const answer = await this.api.call({ method: 'GET', path: `/roles/${encodeURIComponent(name)}`, operation });
    // A 404 for another reason may mean that something else is missing, such as the realm.
    if (answer.status === 404 && notFound(answer) instanceof RoleNotFound) return undefined;
    const role = read(answer, ROLE);
    return role.description === description ? role : undefined;
  }

  private async assignableOfAll(ids: readonly string[], operation: Operation): Promise<readonly NamedRole[]> {
    const unseen = new Set(ids);
    const roles: NamedRole[] = [];
    for await (const page of this.pages(operation)) {
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
}
