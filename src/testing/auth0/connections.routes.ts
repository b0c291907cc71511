import { z } from 'zod';
import { ManagementError } from './management-error.js';
import { listAnswer, readPage } from './paging.js';
import { readBody, type Route } from './route.js';
import { withFields } from './shown-fields.js';
import type { ConnectionRecord, Tenant } from './tenant.js';

const CLIENTS = z.array(z.strictObject({ client_id: z.string().min(1), status: z.boolean() })).min(1).max(50);

/** Auth0's operations on connections (sources of users). */
export const connectionsRoutes = (tenant: Tenant): Route[] => [
  {
    operation: 'GET /connections',
    scopes: ['read:connections'],
    answer: ({ query }) => {
      const name = query.get('name');
      const connections = tenant.connections.filter((connection) => name === null || connection.name === name);
      const page = readPage(query, { defaultSize: 50, largestSize: 100, smallestSize: 0 });
      return listAnswer('connections', connections.map((connection) => withFields(connectionView(connection), query)), page);
    },
  },
  {
    operation: 'GET /connections/{id}/clients',
    scopes: ['read:connections'],
    answer: ({ id, query }) => {
      const clients = [...existingConnection(tenant, id).enabledClients];
      const start = Number(query.get('from') ?? 0);
      const end = start + Number(query.get('take') ?? 50);
      const shown = clients.slice(start, end).map((clientId) => ({ client_id: clientId }));
      return { status: 200, body: { clients: shown, ...(end < clients.length && { next: String(end) }) } };
    },
  },
  {
    operation: 'PATCH /connections/{id}/clients',
    scopes: ['update:connections'],
    answer: ({ id, body }) => {
      const changes = readBody(CLIENTS, body);
      const { enabledClients } = existingConnection(tenant, id);
      for (const { client_id: clientId, status } of changes) {
        if (status) enabledClients.add(clientId);
        else enabledClients.delete(clientId);
      }
      return { status: 204 };
    },
  },
];

function existingConnection(tenant: Tenant, id: string): ConnectionRecord {
  const connection = tenant.connections.find((each) => each.id === id);
  if (!connection) throw new ManagementError(404, 'The connection does not exist', 'inexistent_connection');
  return connection;
}

const connectionView = ({ id, name, strategy, enabledClients }: ConnectionRecord): Record<string, unknown> => ({
  id,
  name,
  strategy,
  options: {},
  realms: [name],
  enabled_clients: [...enabledClients],
});
