import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { invalidBody, ManagementError } from './management-error.js';
import { listAnswer, readPage } from './paging.js';
import { type RouteAnswer, type ApiCall, readBody, type Route, text } from './route.js';
import type { ApiScope, ResourceServerRecord, Tenant } from './tenant.js';

const SCOPES = z.array(z.strictObject({ value: text(1, 280), description: text(0, 500).optional() })).optional();
const SETTINGS = {
  name: z.string().max(200).regex(/^[^<>]+$/).optional(),
  scopes: SCOPES,
  signing_alg: z.enum(['HS256', 'RS256', 'RS512', 'PS256']).optional(),
  signing_secret: z.string().min(16).optional(),
  token_lifetime: z.int().min(0).max(2_592_000).optional(),
  token_dialect: z.enum(['access_token', 'access_token_authz', 'rfc9068_profile', 'rfc9068_profile_authz']).optional(),
  enforce_policies: z.boolean().optional(),
  allow_offline_access: z.boolean().optional(),
  skip_consent_for_verifiable_first_party_clients: z.boolean().optional(),
};
const NEW_SERVER = z.strictObject({ identifier: text(1, 600), ...SETTINGS });
const SERVER_CHANGE = z.strictObject(SETTINGS);

const MAX_SCOPES = 1000;
const RESERVED_SCOPES = new Set(
  'address created_at email email_verified family_name given_name identities name nickname offline_access openid phone picture profile'.split(' '),
);
const NEW_SETTINGS = {
  allow_offline_access: false,
  skip_consent_for_verifiable_first_party_clients: false,
  signing_alg: 'RS256',
  token_lifetime: 86_400,
  token_lifetime_for_web: 7200,
};

export const resourceServersRoutes = (tenant: Tenant): Route[] => [
  {
    operation: 'GET /resource-servers',
    scopes: ['read:resource_servers'],
    answer: ({ query }) => {
      const wanted = query.getAll('identifiers');
      const { largestPage } = tenant.settings;
      const page = readPage(query, { defaultSize: largestPage / 2, largestSize: largestPage, smallestSize: 1 });
      const servers = [...tenant.resourceServers.values()].filter(({ identifier }) => wanted.length === 0 || wanted.includes(identifier));
      return listAnswer('resource_servers', servers.map(serverView), page);
    },
  },
  { operation: 'POST /resource-servers', scopes: ['create:resource_servers'], answer: (call) => createServer(tenant, call) },
  {
    operation: 'GET /resource-servers/{id}',
    scopes: ['read:resource_servers'],
    answer: ({ id }) => ({ status: 200, body: serverView(existingServer(tenant, id)) }),
  },
  {
    operation: 'DELETE /resource-servers/{id}',
    scopes: ['delete:resource_servers'],
    answer: ({ id }) => {
      const { id: own, identifier } = existingServer(tenant, id);
      tenant.resourceServers.delete(own);
      for (const role of tenant.roles.values()) role.permissions = role.permissions.filter(({ audience }) => audience !== identifier);
      return { status: 204 };
    },
  },
  { operation: 'PATCH /resource-servers/{id}', scopes: ['update:resource_servers'], answer: (call) => updateServer(tenant, call) },
];

/** Makes the record of a new API (Auth0: resource server) with Auth0's defaults. The caller adds it to the tenant. */
export function newResourceServer(
  server: Pick<ResourceServerRecord, 'identifier'> & Partial<Pick<ResourceServerRecord, 'isSystem' | 'scopes' | 'settings'>>,
): ResourceServerRecord {
  const { identifier, isSystem = false, scopes = [], settings } = server;
  return { id: randomBytes(12).toString('hex'), identifier, isSystem, scopes, settings: { name: identifier, ...NEW_SETTINGS, ...settings } };
}

const serverView = ({ id, identifier, isSystem, scopes, settings }: ResourceServerRecord) => ({
  id,
  identifier,
  is_system: isSystem,
  ...settings,
  ...(scopes.length > 0 && { scopes }),
});

function existingServer(tenant: Tenant, id: string): ResourceServerRecord {
  const server = tenant.resourceServers.get(id) ?? tenant.resourceServer(id);
  if (!server) throw new ManagementError(404, 'The resource server does not exist', 'inexistent_resource_server');
  return server;
}

function createServer(tenant: Tenant, { body }: ApiCall): RouteAnswer {
  const { identifier, scopes = [], ...settings } = readBody(NEW_SERVER, body);
  if (tenant.resourceServer(identifier)) throw new ManagementError(409, 'A resource server with the same identifier already exists.');
  checkScopes(scopes);
  const server = newResourceServer({ identifier, scopes, settings });
  tenant.resourceServers.set(server.id, server);
  return { status: 201, body: serverView(server) };
}

function updateServer(tenant: Tenant, { id, body }: ApiCall): RouteAnswer {
  const { scopes, ...settings } = readBody(SERVER_CHANGE, body);
  const server = existingServer(tenant, id);
  if (server.isSystem) throw new ManagementError(400, 'System resource servers cannot be patched', 'operation_not_supported');
  if (scopes) {
    checkScopes(scopes);
    server.scopes = scopes;
    const values = new Set(scopes.map(({ value }) => value));
    for (const role of tenant.roles.values()) {
      role.permissions = role.permissions.filter(({ audience, name }) => audience !== server.identifier || values.has(name));
    }
  }
  server.settings = { ...server.settings, ...settings };
  // Auth0's API description says that changing an API answers 201, but Auth0 answers 200 in recorded traffic.
  return { status: 200, body: serverView(server) };
}

function checkScopes(scopes: readonly ApiScope[]): void {
  const values = scopes.map(({ value }) => value);
  if (new Set(values).size < values.length) throw invalidBody('Duplicate scope value on property scopes');
  const wrong = values.find((value) => RESERVED_SCOPES.has(value) || /\s/u.test(value));
  if (wrong !== undefined) throw invalidBody(`Scope ${wrong} is not allowed on property scopes`);
  if (values.length > MAX_SCOPES) throw new ManagementError(400, `An API has at most ${MAX_SCOPES} scopes.`);
}
