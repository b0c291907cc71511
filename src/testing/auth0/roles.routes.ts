import { z } from 'zod';
import { invalidBody, ManagementError } from './management-error.js';
import { listAnswer, type Page, readPage } from './paging.js';
import { type RouteAnswer, type ApiCall, readBody, type Route } from './route.js';
import { newId, type RoleRecord, type Tenant } from './tenant.js';
import { existingUser } from './users.routes.js';

const NEW_ROLE = z.strictObject({ name: z.string().min(1), description: z.string().optional() });
const ROLE_CHANGE = z.strictObject({ name: z.string().min(1).optional(), description: z.string().optional() });
const ROLE_IDS = z.strictObject({ roles: z.array(z.string().min(1)).min(1) });
const PERMISSIONS = z.strictObject({
  permissions: z.array(z.strictObject({ resource_server_identifier: z.string(), permission_name: z.string() })).min(1),
});

const ROLE_ID = /^rol_[A-Za-z0-9]{16}$/;
const MAX_ROLES = 1000;
const MAX_PERMISSIONS = 1000;
const MAX_ROLES_OF_A_USER = 50;
const MEMBERS_CAP = 1000;

export const rolesRoutes = (tenant: Tenant): Route[] => {
  const pageOf = (query: URLSearchParams, cap?: number): Page => {
    const { largestPage } = tenant.settings;
    return readPage(query, { defaultSize: largestPage / 2, largestSize: largestPage, smallestSize: 1, ...(cap !== undefined && { cap }) });
  };
  return [
    {
      operation: 'GET /roles',
      scopes: ['read:roles'],
      answer: ({ query }) => {
        const part = query.get('name_filter')?.toLowerCase() ?? '';
        const found = [...tenant.roles.values()].filter(({ name }) => name.toLowerCase().includes(part));
        return listAnswer('roles', found.map((role) => roleView(tenant, role)), pageOf(query));
      },
    },
    { operation: 'POST /roles', scopes: ['create:roles'], answer: (call) => createRole(tenant, call) },
    {
      operation: 'GET /roles/{id}',
      scopes: ['read:roles'],
      answer: ({ id }) => ({ status: 200, body: roleView(tenant, existingRole(tenant, id)) }),
    },
    {
      operation: 'PATCH /roles/{id}',
      scopes: ['update:roles'],
      answer: ({ id, body }) => {
        const { name, description } = readBody(ROLE_CHANGE, body);
        const role = existingRole(tenant, id);
        if (name !== undefined && name !== role.name) assertFree(tenant, name);
        role.name = name ?? role.name;
        role.description = description ?? role.description;
        return { status: 200, body: roleView(tenant, role) };
      },
    },
    {
      operation: 'DELETE /roles/{id}',
      scopes: ['delete:roles'],
      answer: ({ id }) => {
        existingRole(tenant, id);
        tenant.removeRole(id);
        return { status: 200, body: {} };
      },
    },
    {
      operation: 'GET /roles/{id}/permissions',
      scopes: ['read:roles'],
      answer: ({ id, query }) => {
        const permissions = existingRole(tenant, id).permissions.map(({ audience, name }) => {
          const server = tenant.resourceServer(audience);
          const description = server?.scopes.find(({ value }) => value === name)?.description;
          return {
            resource_server_identifier: audience,
            permission_name: name,
            resource_server_name: server?.settings.name,
            ...(description !== undefined && { description }),
          };
        });
        return listAnswer('permissions', permissions, pageOf(query));
      },
    },
    { operation: 'POST /roles/{id}/permissions', scopes: ['update:roles'], answer: (call) => addPermissions(tenant, call) },
    {
      operation: 'DELETE /roles/{id}/permissions',
      scopes: ['update:roles'],
      answer: ({ id, body }) => {
        const { permissions } = readBody(PERMISSIONS, body);
        const role = existingRole(tenant, id);
        const isTaken = ({ audience, name }: { audience: string; name: string }) =>
          permissions.some((each) => each.resource_server_identifier === audience && each.permission_name === name);
        role.permissions = role.permissions.filter((permission) => !isTaken(permission));
        return { status: 200, body: {} };
      },
    },
    {
      operation: 'GET /roles/{id}/users',
      scopes: ['read:users', 'read:roles', 'read:role_members'],
      answer: ({ id, query }) => {
        const page = pageOf(query, MEMBERS_CAP);
        existingRole(tenant, id);
        const members = tenant.membersOf(id).map(({ userId, email, name }) => ({ user_id: userId, email, name }));
        return listAnswer('users', members, page);
      },
    },
    {
      operation: 'GET /users/{id}/roles',
      scopes: ['read:users', 'read:roles', 'read:role_members'],
      answer: ({ id, query }) => {
        existingUser(tenant, id);
        return listAnswer('roles', tenant.rolesOf(id).map((role) => roleView(tenant, role)), pageOf(query));
      },
    },
    // Auth0 documents three different lists of scopes for assigning roles: in the API description, in its text for
    // status 403, and in a guide. The stand-in requires the scopes of all three, so that a token that suffices here
    // suffices at Auth0.
    {
      operation: 'POST /users/{id}/roles',
      scopes: ['read:roles', 'update:users', 'create:role_members'],
      answer: (call) => assignRoles(tenant, call),
    },
    {
      operation: 'DELETE /users/{id}/roles',
      scopes: ['update:users', 'delete:role_members'],
      answer: ({ id, body }) => {
        const { roles } = readBody(ROLE_IDS, body);
        existingUser(tenant, id);
        for (const roleId of roles) tenant.roleIdsOf(id).delete(roleId);
        return { status: 204 };
      },
    },
  ];
};

function roleView(tenant: Tenant, { id, name, description, ownerId }: RoleRecord): object {
  const owner = ownerId === undefined ? { type: 'tenant' } : { type: 'organization', owner_id: ownerId };
  return { id, name, ...(description !== undefined && { description }), ...(tenant.hasOrganizationRoles && owner) };
}

function existingRole(tenant: Tenant, id: string): RoleRecord {
  const role = tenant.roles.get(id);
  if (!role) throw new ManagementError(404, 'The role does not exist.', 'inexistent_role');
  return role;
}

function assertFree(tenant: Tenant, name: string): void {
  if ([...tenant.roles.values()].some((role) => role.name === name)) throw new ManagementError(409, 'The role already exists.');
}

function createRole(tenant: Tenant, { body }: ApiCall): RouteAnswer {
  const { name, description } = readBody(NEW_ROLE, body);
  assertFree(tenant, name);
  if (tenant.roles.size >= MAX_ROLES) {
    throw new ManagementError(403, 'You reached the limit of entities of this type for this tenant.', 'too_many_entities');
  }
  const role = { id: newId('rol_'), name, description, permissions: [] };
  tenant.roles.set(role.id, role);
  // Auth0 answers the creation of a role with 200, unlike other creations (201).
  return { status: 200, body: roleView(tenant, role) };
}

function addPermissions(tenant: Tenant, { id, body }: ApiCall): RouteAnswer {
  const { permissions } = readBody(PERMISSIONS, body);
  const role = existingRole(tenant, id);
  const added = permissions.map(({ resource_server_identifier: audience, permission_name: name }) => {
    const server = tenant.resourceServer(audience);
    if (!server) throw new ManagementError(404, `The resource server does not exist: ${audience}`, 'inexistent_resource_server');
    // Auth0 doesn't document what happens when an unknown permission is added to a role. Here, it is refused.
    if (!server.scopes.some(({ value }) => value === name)) throw invalidBody(`Unknown permission ${name}`);
    return { audience, name };
  });
  const all = new Map([...role.permissions, ...added].map((permission) => [JSON.stringify(permission), permission]));
  if (all.size > MAX_PERMISSIONS) throw new ManagementError(400, `A role has at most ${MAX_PERMISSIONS} permissions.`);
  role.permissions = [...all.values()];
  return { status: 201, body: {} };
}

function assignRoles(tenant: Tenant, { id, body }: ApiCall): RouteAnswer {
  const { roles } = readBody(ROLE_IDS, body);
  // Auth0 was seen to answer 400 `invalid_body` to a request with role names in place of role ids.
  if (!roles.every((roleId) => ROLE_ID.test(roleId))) throw new ManagementError(400, 'Invalid request payload input', 'invalid_body');
  existingUser(tenant, id);
  const known = roles.filter((roleId) => tenant.roles.has(roleId));
  if (known.length < roles.length && tenant.settings.unknownRole !== 'ignored') {
    throw new ManagementError(tenant.settings.unknownRole === 'not-found' ? 404 : 400, 'The role does not exist.');
  }
  const roleIds = tenant.roleIdsOf(id);
  if (new Set([...roleIds, ...known]).size > MAX_ROLES_OF_A_USER) {
    throw new ManagementError(400, `A user has at most ${MAX_ROLES_OF_A_USER} roles.`);
  }
  for (const roleId of known) roleIds.add(roleId);
  return { status: 204 };
}
