import { z } from 'zod';
import type { ApiClient } from '../provider-api/api-client.js';
import type { Operation } from '../provider-api/operation.js';

/** Auth0 allows at most 100 per page. The public cloud may return only 50. */
const PER_PAGE = 100;

/** The query for a page; the first page is 0. */
export const pageOf = (page: number): string => `page=${page}&per_page=${PER_PAGE}&include_totals=true`;

/**
 * The pages of a list, of any length.
 *
 * @param member the member of an answer that contains the items.
 * @param turn returns the operation of a call.
 * @throws as `ApiClient.get`.
 */
export async function* listPages<Schema extends z.ZodType>(
  api: ApiClient,
  path: string,
  { member, schema, turn }: { readonly member: string; readonly schema: Schema; readonly turn: () => Operation },
): AsyncGenerator<readonly z.infer<Schema>[], void, undefined> {
  const page = z.object({ start: z.number(), total: z.number(), [member]: z.array(schema) });
  for (let number = 0; ; number++) {
    const answer = await api.get(`${path}${path.includes('?') ? '&' : '?'}${pageOf(number)}`, page, turn());
    const items = answer[member] as z.infer<Schema>[];
    yield items;
    if (items.length === 0 || Number(answer.start) + items.length >= Number(answer.total)) return;
  }
}
