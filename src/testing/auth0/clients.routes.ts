import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { invalidBody, ManagementError } from './management-error.js';
import { listAnswer, type Page, readPage } from './paging.js';
import { readBody, type Route, text } from './route.js';
import { type ClientGrantRecord, type ClientRecord, newId, type Tenant } from './tenant.js';

const NEW_CLIENT = z.looseObject({ name: z.string().min(1).regex(/^[^<>]+$/), app_type: z.string().optional() });
const NEW_GRANT = z.strictObject({ client_id: text(1, 255), audience: text(1, 600), scope: z.array(z.string().min(1).max(280)) });
const GRANT_CHANGE = z.strictObject({ scope: z.array(z.string().min(1).max(280)) });

/** Applications, their grants and the connections: what a set-up needs. */
export const clientsRoutes = (tenant: Tenant): Route[] => {
  const pageOf = (query: URLSearchParams): Page => readPage(query, { defaultSize: 50, largestSize: 100, smallestSize: 0 });
  const checkScopes = (audience: string, scopes: readonly string[]): void => {
    const known = new Set(tenant.resourceServer(audience)?.scopes.map(({ value }) => value));
    const unknown = scopes.filter((scope) => !known.has(scope));
    if (unknown.length > 0) throw invalidBody(`The API doesn't have these scopes: ${unknown.join(', ')} on property scope`);
  };
  return [
    {
      operation: 'GET /clients',
      scopes: ['read:clients'],
      answer: ({ query }) => listAnswer('clients', [...tenant.clients.values()].map(clientView), pageOf(query)),
    },
    {
      operation: 'POST /clients',
      scopes: ['create:clients'],
      answer: ({ body }) => {
        const settings = readBody(NEW_CLIENT, body);
        const client = { id: randomBytes(16).toString('hex'), secret: randomBytes(32).toString('hex'), settings };
        tenant.clients.set(client.id, client);
        return { status: 201, body: clientView(client) };
      },
    },
    {
      operation: 'GET /clients/{id}',
      scopes: ['read:clients'],
      answer: ({ id }) => {
        const client = tenant.clients.get(id);
        if (!client) throw new ManagementError(404, 'The client does not exist', 'inexistent_client');
        return { status: 200, body: clientView(client) };
      },
    },
    {
      operation: 'GET /client-grants',
      scopes: ['read:client_grants'],
      answer: ({ query }) => {
        const [clientId, audience] = [query.get('client_id'), query.get('audience')];
        const grants = [...tenant.clientGrants.values()].filter(
          (grant) => (clientId === null || grant.clientId === clientId) && (audience === null || grant.audience === audience),
        );
        return listAnswer('client_grants', grants.map(grantView), pageOf(query));
      },
    },
    {
      operation: 'POST /client-grants',
      scopes: ['create:client_grants'],
      answer: ({ body }) => {
        const { client_id: clientId, audience, scope } = readBody(NEW_GRANT, body);
        if (!tenant.clients.has(clientId)) throw new ManagementError(404, 'The client does not exist', 'inexistent_client');
        if (!tenant.resourceServer(audience)) throw new ManagementError(404, 'The resource server does not exist', 'inexistent_resource_server');
        checkScopes(audience, scope);
        if ([...tenant.clientGrants.values()].some((grant) => grant.clientId === clientId && grant.audience === audience)) {
          throw new ManagementError(409, 'A resource with the same client_id and audience already exists.');
        }
        const grant = { id: newId('cgr_'), clientId, audience, scope };
        tenant.clientGrants.set(grant.id, grant);
        return { status: 201, body: grantView(grant) };
      },
    },
    {
      operation: 'PATCH /client-grants/{id}',
      scopes: ['update:client_grants'],
      answer: ({ id, body }) => {
        const { scope } = readBody(GRANT_CHANGE, body);
        const grant = tenant.clientGrants.get(id);
        if (!grant) throw new ManagementError(404, 'The client grant does not exist', 'inexistent_client_grant');
        checkScopes(grant.audience, scope);
        grant.scope = scope;
        return { status: 200, body: grantView(grant) };
      },
    },
    {
      operation: 'GET /connections',
      scopes: ['read:connections'],
      answer: ({ query }) => {
        const name = query.get('name');
        const connections = tenant.connections.filter((connection) => name === null || connection.name === name);
        return listAnswer('connections', connections, pageOf(query));
      },
    },
  ];
};

const clientView = ({ id, secret, settings }: ClientRecord) => ({ ...settings, client_id: id, client_secret: secret });

const grantView = ({ id, clientId, audience, scope }: ClientGrantRecord) => ({ id, client_id: clientId, audience, scope });
