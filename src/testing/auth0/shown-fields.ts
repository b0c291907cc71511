import { flag } from './paging.js';

/**
 * Reduces an object of an answer to the members that the query parameter `fields` names, or with `include_fields=false`
 * to all members except those. Without `fields`, the object is returned unchanged.
 */
export function withFields(view: Record<string, unknown>, query: URLSearchParams): Record<string, unknown> {
  const fields = query.get('fields')?.split(',');
  if (!fields) return view;
  const areShown = flag(query, 'include_fields') ?? true;
  return Object.fromEntries(Object.entries(view).filter(([name]) => fields.includes(name) === areShown));
}
