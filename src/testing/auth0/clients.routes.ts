import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { invalidBody, ManagementError } from './management-error.js';
import { listAnswer, type Page, readPage } from './paging.js';
import { type RouteAnswer, type ApiCall, readBody, type Route, text } from './route.js';
import { withFields } from './shown-fields.js';
import { type ClientGrantRecord, type ClientRecord, newId, type Tenant } from './tenant.js';

const SETTINGS = {
  app_type: z.enum(['native', 'spa', 'regular_web', 'non_interactive']).optional(),
  token_endpoint_auth_method: z.enum(['none', 'client_secret_post', 'client_secret_basic']).optional(),
  grant_types: z.array(z.string()).optional(),
  callbacks: z.array(z.string()).optional(),
  web_origins: z.array(z.url()).optional(),
  oidc_conformant: z.boolean().optional(),
  is_first_party: z.boolean().optional(),
  description: z.string().max(140).optional(),
};
const NAME = z.string().min(1).regex(/^[^<>]+$/);
const NEW_CLIENT = z.strictObject({ name: NAME, ...SETTINGS });
const CLIENT_CHANGE = z.strictObject({ name: NAME.optional(), ...SETTINGS });

/** Defaults for the settings of a new client, as seen in recorded traffic of Auth0. */
const UNSAID = { is_first_party: true, oidc_conformant: false };
const GRANT_TYPES = ['authorization_code', 'implicit', 'refresh_token', 'client_credentials'];

const SCOPES = z.array(z.string().min(1).max(280));
const SUBJECT = z.enum(['client', 'user']).optional();
const NEW_GRANT = z.strictObject({ client_id: text(1, 255), audience: text(1, 600), scope: SCOPES.optional(), subject_type: SUBJECT });
const GRANT_CHANGE = z.strictObject({ scope: SCOPES.nullish(), allow_all_scopes: z.boolean().nullish() });

/** The scopes for reading clients. One suffices, but only `read:client_keys` shows the clients' secrets. */
const READ_CLIENTS = ['read:clients', 'read:client_keys'];

/** Auth0's operations on clients (applications), and on client grants (the scopes of an API that a client has). */
export const clientsRoutes = (tenant: Tenant): Route[] => [
  {
    operation: 'GET /clients',
    scopes: READ_CLIENTS,
    anyScope: true,
    answer: ({ query, scopes }) => {
      const clients = [...tenant.clients.values()].map((client) => withFields(clientView(client, scopes), query));
      return listAnswer('clients', clients, pageOf(query));
    },
  },
  { operation: 'POST /clients', scopes: ['create:clients'], answer: (call) => createClient(tenant, call) },
  {
    operation: 'GET /clients/{id}',
    scopes: READ_CLIENTS,
    anyScope: true,
    answer: ({ id, query, scopes }) => ({ status: 200, body: withFields(clientView(existingClient(tenant, id), scopes), query) }),
  },
  {
    operation: 'PATCH /clients/{id}',
    scopes: ['update:clients'],
    answer: ({ id, body, scopes }) => {
      const change = readBody(CLIENT_CHANGE, body);
      const client = existingClient(tenant, id);
      client.settings = { ...client.settings, ...change };
      return { status: 200, body: clientView(client, scopes) };
    },
  },
  {
    operation: 'DELETE /clients/{id}',
    scopes: ['delete:clients'],
    answer: ({ id }) => {
      tenant.removeClient(id);
      return { status: 204 };
    },
  },
  {
    operation: 'GET /client-grants',
    scopes: ['read:client_grants'],
    answer: ({ query }) => {
      const wanted = ['client_id', 'audience', 'subject_type'].map((name) => [name, query.get(name)] as const);
      const grants = [...tenant.clientGrants.values()].map(grantView);
      const found = grants.filter((grant) => wanted.every(([name, value]) => value === null || Object.entries(grant).some(([key, has]) => key === name && has === value)));
      return listAnswer('client_grants', found, pageOf(query));
    },
  },
  { operation: 'POST /client-grants', scopes: ['create:client_grants'], answer: (call) => createGrant(tenant, call) },
  {
    operation: 'PATCH /client-grants/{id}',
    scopes: ['update:client_grants'],
    answer: ({ id, body }) => {
      const { scope, allow_all_scopes: allowsAll } = readBody(GRANT_CHANGE, body);
      const grant = existingGrant(tenant, id);
      checkScopes(tenant, grant.audience, scope ?? []);
      grant.scope = scope ?? grant.scope;
      grant.allowsAll = allowsAll ?? grant.allowsAll;
      return { status: 200, body: grantView(grant) };
    },
  },
  {
    operation: 'DELETE /client-grants/{id}',
    scopes: ['delete:client_grants'],
    answer: ({ id }) => {
      tenant.clientGrants.delete(id);
      return { status: 204 };
    },
  },
];

const pageOf = (query: URLSearchParams): Page => readPage(query, { defaultSize: 50, largestSize: 100, smallestSize: 0 });

function createClient(tenant: Tenant, { body, scopes }: ApiCall): RouteAnswer {
  const sent = readBody(NEW_CLIENT, body);
  const grantTypes = sent.app_type === 'spa' ? GRANT_TYPES.slice(0, 3) : GRANT_TYPES;
  const client = { id: newId('', 32), secret: randomBytes(32).toString('hex'), settings: { ...UNSAID, grant_types: grantTypes, ...sent } };
  tenant.clients.set(client.id, client);
  // Auth0's answer to the creation of a client has the secret even without the scope `read:client_keys`.
  return { status: 201, body: clientView(client, new Set([...scopes, 'read:client_keys'])) };
}

function existingClient(tenant: Tenant, id: string): ClientRecord {
  const client = tenant.clients.get(id);
  if (!client) throw new ManagementError(404, 'The client does not exist', 'inexistent_client');
  return client;
}

function createGrant(tenant: Tenant, { body }: ApiCall): RouteAnswer {
  const { client_id: clientId, audience, scope = [], subject_type: subject = 'client' } = readBody(NEW_GRANT, body);
  existingClient(tenant, clientId);
  if (!tenant.resourceServer(audience)) throw new ManagementError(404, 'The resource server does not exist', 'inexistent_resource_server');
  checkScopes(tenant, audience, scope);
  const grants = [...tenant.clientGrants.values()];
  if (grants.some((grant) => grant.clientId === clientId && grant.audience === audience && grant.subject === subject)) {
    throw new ManagementError(409, 'A resource with the same client_id and audience already exists.');
  }
  const grant = { id: newId('cgr_'), clientId, audience, subject, scope, allowsAll: undefined };
  tenant.clientGrants.set(grant.id, grant);
  return { status: 201, body: grantView(grant) };
}

function existingGrant(tenant: Tenant, id: string): ClientGrantRecord {
  const grant = tenant.clientGrants.get(id);
  if (!grant) throw new ManagementError(404, 'The client grant does not exist', 'inexistent_client_grant');
  return grant;
}

function checkScopes(tenant: Tenant, audience: string, scopes: readonly string[]): void {
  const known = new Set(tenant.resourceServer(audience)?.scopes.map(({ value }) => value));
  const unknown = scopes.filter((scope) => !known.has(scope));
  if (unknown.length > 0) throw invalidBody(`The API doesn't have these scopes: ${unknown.join(', ')} on property scope`);
}

const clientView = ({ id, secret, settings }: ClientRecord, scopes: ReadonlySet<string>): Record<string, unknown> => ({
  ...settings,
  client_id: id,
  ...(scopes.has('read:client_keys') && { client_secret: secret }),
});

const grantView = ({ id, clientId, audience, subject, scope, allowsAll }: ClientGrantRecord) => ({
  id,
  client_id: clientId,
  audience,
  subject_type: subject,
  ...(allowsAll !== true && { scope }),
  ...(allowsAll !== undefined && { allow_all_scopes: allowsAll }),
});
