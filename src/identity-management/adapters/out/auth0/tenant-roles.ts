import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { InvalidIdentityValue, RoleAlreadyExists, RoleNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import { type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import type { LeftBehind } from '../provider-api/left-behind.js';
import { ListTurns, type Operation } from '../provider-api/operation.js';
import type { ApiScopes } from './api-scopes.js';
import { listPages, pageOf } from './management-api.js';

const ROLE_ID = /^rol_[A-Za-z0-9]{16}$/;
/**
 * How many roles at most are looked up by id, with one call each. If more roles are wanted, the list of all roles is
 * read, because one call per role would take too long with the rate limit of a small Auth0 plan.
 */
const MAX_LOOK_UPS = 5;

const ROLE = z.object({ id: z.string(), name: z.string(), description: z.string().nullish(), type: z.string().nullish() });
const ROLES = z.object({ start: z.number(), total: z.number(), roles: z.array(ROLE) });

/** Whether a role belongs to the tenant itself, and not to one of its organizations. */
const isTenantRole = ({ type }: z.infer<typeof ROLE>): boolean => type == null || type === 'tenant';

/** The roles of an Auth0 tenant, except those of its organizations. */
export class TenantRoles {
  /** @param audience the identifier of the API whose scopes are the permissions of roles. */
  constructor(
    private readonly api: ApiClient,
    private readonly leftBehind: LeftBehind,
    private readonly scopes: ApiScopes,
    private readonly audience: string,
  ) {}

  /** Creates a role. Returns its id. */
  async create({ name, permissions }: NewRole, operation: Operation): Promise<string> {
    await this.leftBehind.free('role', name, operation);
    await this.scopes.ensure(permissions, operation);
    // The role's description has a random part. So the role can be found and removed even if Auth0's answer to the
    // creation is lost.
    const description = `Created by the load-data service, ${randomUUID()}`;
    return await this.leftBehind.allOrNothing({
      operation,
      what: 'role',
      name,
      create: async () => {
        const answer = await this.api.call({ method: 'POST', path: '/roles', body: { name, description }, operation });
        if (answer.status === 409) throw new RoleAlreadyExists('role name');
        if (answer.status === 400) throw new InvalidIdentityValue('role name');
        return read(answer, ROLE).id;
      },
      complete: async (id) => {
        await this.givePermissions(id, permissions, operation);
        return id;
      },
      undo: (created) => ({
        trace: { description },
        remove: async (attempt) => {
          const id = created ?? (await this.idOf(name, description, attempt));
          if (id !== undefined) await this.api.remove(`/roles/${id}`, attempt);
          return id !== undefined;
        },
      }),
    });
  }

  /**
   * Lists each role once. An unchanged role may be missing from the list if, during the listing, another role is
   * deleted and a third one is created.
   */
  async *list(signal: AbortSignal): AsyncGenerator<readonly Role[], void, undefined> {
    const turns = new ListTurns(signal);
    const listed = new Set<string>();
    for (let page = 0, known = 0, isLast = false; !isLast; ) {
      const { start, total, roles } = await this.api.get(`/roles?${pageOf(page)}`, ROLES, turns.next());
      const fresh = roles.filter((role) => isTenantRole(role) && !listed.has(role.id));
      for (const { id } of fresh) listed.add(id);
      yield fresh.map(({ id, name }) => ({ roleId: id, name }));
      // A smaller total than on the previous page means that a role was deleted. The roles listed after the deleted one
      // have moved up, perhaps to a page that was read already. So the list is read again from its first page.
      const isShorter = total < known;
      known = total;
      page = isShorter ? 0 : page + 1;
      isLast = !isShorter && (roles.length === 0 || start + roles.length >= total);
    }
  }

  /**
   * Checks that roles exist before they are assigned, because Auth0's documentation doesn't say how Auth0 answers the
   * assignment of a deleted role.
   *
   * @throws RoleNotFound when a role doesn't exist, or belongs to an organization.
   */
  async assertAssignable(roleIds: readonly string[], operation: Operation): Promise<void> {
    if (!roleIds.every((roleId) => ROLE_ID.test(roleId))) throw new RoleNotFound('role_id');
    const unseen = new Set(roleIds);
    if (unseen.size > MAX_LOOK_UPS) {
      for await (const roles of listPages(this.api, '/roles', { member: 'roles', schema: ROLE, turn: () => operation })) {
        for (const { id } of roles.filter(isTenantRole)) unseen.delete(id);
        if (unseen.size === 0) return;
      }
      // While the pages of the list were read, deletions may have moved a few roles up to a page that was read already.
      // So if at most `MAX_LOOK_UPS` of the wanted roles were not found, these are looked up by id.
      if (unseen.size > MAX_LOOK_UPS) throw new RoleNotFound('role_id');
    }
    await Promise.all([...unseen].map((roleId) => this.assertTenantRole(roleId, operation)));
  }

  /**
   * Checks that a role exists and belongs to the tenant itself. Operations that wait in the rate limiter's queue to
   * read the same role share one call, because a tenant accepts few calls per second.
   */
  private async assertTenantRole(roleId: string, operation: Operation): Promise<void> {
    const answer = await this.api.readShared(`/roles/${roleId}`, operation);
    if (answer.status === 404 || answer.status === 400 || !isTenantRole(read(answer, ROLE))) throw new RoleNotFound('role_id');
  }

  private async givePermissions(roleId: string, names: readonly string[], operation: Operation): Promise<void> {
    const permissions = names.map((name) => ({ resource_server_identifier: this.audience, permission_name: name }));
    const give = () => this.api.call({ method: 'POST', path: `/roles/${roleId}/permissions`, body: { permissions }, operation });
    let answer = await give();
    if (answer.status === 400 || answer.status === 404) {
      // Auth0 refused the permissions, although they were added to the API's scopes. Others may have overwritten the
      // scopes in the meantime, so the permissions are added to the scopes again.
      await this.scopes.ensure(names, operation);
      answer = await give();
    }
    if (answer.status !== 201) throw unexpected(answer);
  }

  /** The id of the role with this name and description; undefined if there is none. */
  private async idOf(name: string, description: string, operation: Operation): Promise<string | undefined> {
    const path = `/roles?name_filter=${encodeURIComponent(name)}`;
    for await (const roles of listPages(this.api, path, { member: 'roles', schema: ROLE, turn: () => operation })) {
      const ours = roles.find((role) => role.description === description);
      if (ours) return ours.id;
    }
    return undefined;
  }
}
