import { flag } from './paging.js';

/**
 * Applies the query parameter `fields` of a request to an object of the answer: keeps only the members that `fields`
 * names or, with `include_fields=false`, removes these members. Without `fields`, returns the object unchanged.
 */
export function withFields(view: Record<string, unknown>, query: URLSearchParams): Record<string, unknown> {
  const fields = query.get('fields')?.split(',');
  if (!fields) return view;
  const areShown = flag(query, 'include_fields') ?? true;
  return Object.fromEntries(Object.entries(view).filter(([name]) => fields.includes(name) === areShown));
}
