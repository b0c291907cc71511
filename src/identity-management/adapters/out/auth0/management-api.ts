import { z } from 'zod';
import { ApiClient } from '../provider-api/api-client.js';
import { CallPace } from '../provider-api/call-pace.js';
import type { Operation } from '../provider-api/operation.js';

export interface Auth0Connection {
  /** The tenant's own URL, without a trailing slash: `https://tenant.eu.auth0.com`. A custom domain doesn't work. */
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The rate limiter, which all clients of one tenant in this process should share. Default: a new one. */
  readonly pace?: CallPace;
}

/** A client for the Management API v2 of an Auth0 tenant. */
export function managementApi({ url, clientId, clientSecret, pace = new CallPace() }: Auth0Connection): ApiClient {
  const audience = `${url}/api/v2/`;
  return new ApiClient({
    provider: 'Auth0',
    url: `${url}/api/v2`,
    token: {
      url: `${url}/oauth/token`,
      grant: { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret, audience },
    },
    pace,
  });
}

/** The length of a page. Auth0 allows at most 100, and its public cloud may return only 50. */
const PER_PAGE = 100;

/** The query parameters for a page of a list. Pages are counted from 0. */
export const pageOf = (page: number): string => `page=${page}&per_page=${PER_PAGE}&include_totals=true`;

/**
 * Reads a list from the Management API page by page. A page may have any length.
 *
 * @param member the answer's member that contains the items.
 * @param operation returns the operation for the next call.
 * @throws as `ApiClient.get`.
 */
export async function* listPages<Schema extends z.ZodType>(
  api: ApiClient,
  path: string,
  { member, schema, operation }: { readonly member: string; readonly schema: Schema; readonly operation: () => Operation },
): AsyncGenerator<readonly z.infer<Schema>[], void, undefined> {
  const page = z.object({ start: z.number(), total: z.number(), [member]: z.array(schema) });
  for (let number = 0; ; number++) {
    const answer = await api.get(`${path}${path.includes('?') ? '&' : '?'}${pageOf(number)}`, page, operation());
    const items = answer[member] as z.infer<Schema>[];
    yield items;
    if (items.length === 0 || Number(answer.start) + items.length >= Number(answer.total)) return;
  }
}
