import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { readBody, type Route } from './route.js';
import type { Tenant } from './tenant.js';
import { existingUser } from './users.routes.js';

const NEW_TICKET = z.strictObject({
  user_id: z.string().min(1),
  ttl_sec: z.int().min(0).optional(),
  mark_email_as_verified: z.boolean().optional(),
  includeEmailInRedirect: z.boolean().optional(),
  result_url: z.url().optional(),
  client_id: z.string().optional(),
});

/** Auth0's operation that creates a link to set a user's password. No mail is sent. */
export const ticketsRoutes = (tenant: Tenant): Route[] => [
  {
    operation: 'POST /tickets/password-change',
    scopes: ['create:user_tickets'],
    answer: ({ body }) => {
      const { user_id: userId } = readBody(NEW_TICKET, body);
      existingUser(tenant, userId);
      return { status: 201, body: { ticket: `${tenant.domain}/lo/reset?ticket=${randomBytes(16).toString('hex')}#` } };
    },
  },
];
