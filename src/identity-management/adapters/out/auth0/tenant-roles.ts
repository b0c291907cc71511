import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { InvalidIdentityValue, RoleAlreadyExists, RoleNotFound } from '../../../domain/errors.js';
import type { NewRole, Role } from '../../../domain/role.js';
import { type ApiClient, read, unexpected } from '../provider-api/api-client.js';
import type { LeftBehind } from '../provider-api/left-behind.js';
import { ListOperations, type Operation } from '../provider-api/operation.js';
import type { ApiScopes } from './api-scopes.js';
import { listPages, pageOf } from './management-api.js';

const ROLE_ID = /^rol_[A-Za-z0-9]{16}$/;
/** The most roles read with one call each. For more, the rate limit of a small Auth0 plan would be too low. */
const MAX_LOOK_UPS = 5;

const ROLE = z.object({ id: z.string(), name: z.string(), description: z.string().nullish(), type: z.string().nullish() });
const ROLES = z.object({ start: z.number(), total: z.number(), roles: z.array(ROLE) });

const isTenantRole = ({ type }: z.infer<typeof ROLE>): boolean => type == null || type === 'tenant';

/** The roles of an Auth0 tenant, except those of its organizations. */
export class TenantRoles {
  constructor(
    private readonly api: ApiClient,
    private readonly leftBehind: LeftBehind,
    private readonly scopes: ApiScopes,
    private readonly audience: string,
  ) {}

  async create({ name, permissions }: NewRole, operation: Operation): Promise<string> {
    await this.leftBehind.free('role', name, operation);
    await this.scopes.ensure(permissions, operation);
    // The random part identifies the role for removal even if Auth0's answer to the creation is lost.
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

  /** Lists each role once. May miss a role if, during the listing, another one is deleted and a third one created. */
  async *list(signal: AbortSignal): AsyncGenerator<readonly Role[], void, undefined> {
    const operations = new ListOperations(signal);
    const listed = new Set<string>();
    for (let page = 0, known = 0, isLast = false; !isLast; ) {
      const { start, total, roles } = await this.api.get(`/roles?${pageOf(page)}`, ROLES, operations.next());
      const fresh = roles.filter((role) => isTenantRole(role) && !listed.has(role.id));
      for (const { id } of fresh) listed.add(id);
      yield fresh.map(({ id, name }) => ({ roleId: id, name }));
      // If a role was deleted, later ones have moved up, perhaps to a page that was read. So the list is read again.
      const isShorter = total < known;
      known = total;
      page = isShorter ? 0 : page + 1;
      isLast = !isShorter && (roles.length === 0 || start + roles.length >= total);
    }
  }

  /**
   * Checks that roles exist, because Auth0 doesn't document how it answers the assignment of a deleted role.
   *
   * @throws RoleNotFound when a role doesn't exist, or belongs to an organization.
   */
  async assertAssignable(roleIds: readonly string[], operation: Operation): Promise<void> {
    if (!roleIds.every((roleId) => ROLE_ID.test(roleId))) throw new RoleNotFound('role_id');
    const unseen = new Set(roleIds);
    if (unseen.size > MAX_LOOK_UPS) {
      for await (const roles of listPages(this.api, '/roles', { member: 'roles', schema: ROLE, operation: () => operation })) {
        for (const { id } of roles.filter(isTenantRole)) unseen.delete(id);
        if (unseen.size === 0) return;
      }
      // Deletions may have moved roles to a page that was read. Up to five missing roles are read with one call each.
      if (unseen.size > MAX_LOOK_UPS) throw new RoleNotFound('role_id');
    }
    await Promise.all([...unseen].map((roleId) => this.assertTenantRole(roleId, operation)));
  }

  /** Operations that wait to read one role usually share a call, because a tenant accepts few calls per second. */
  private async assertTenantRole(roleId: string, operation: Operation): Promise<void> {
    const answer = await this.api.readShared(`/roles/${roleId}`, operation);
    if (answer.status === 404 || answer.status === 400 || !isTenantRole(read(answer, ROLE))) throw new RoleNotFound('role_id');
  }

  private async givePermissions(roleId: string, names: readonly string[], operation: Operation): Promise<void> {
    const permissions = names.map((name) => ({ resource_server_identifier: this.audience, permission_name: name }));
    const give = () => this.api.call({ method: 'POST', path: `/roles/${roleId}/permissions`, body: { permissions }, operation });
    let answer = await give();
    if (answer.status === 400 || answer.status === 404) {
      // Auth0 may not know the permissions, because others have overwritten the API's scopes in the meantime.
      await this.scopes.ensure(names, operation);
      answer = await give();
    }
    if (answer.status !== 201) throw unexpected(answer);
  }

  private async idOf(name: string, description: string, operation: Operation): Promise<string | undefined> {
    const path = `/roles?name_filter=${encodeURIComponent(name)}`;
    for await (const roles of listPages(this.api, path, { member: 'roles', schema: ROLE, operation: () => operation })) {
      const ours = roles.find((role) => role.description === description);
      if (ours) return ours.id;
    }
    return undefined;
  }
}
