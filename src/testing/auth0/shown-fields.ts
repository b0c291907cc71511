import { flag } from './paging.js';

/** Returns those members of an object that the query parameters `fields` and `include_fields` select. */
export function withFields(view: Record<string, unknown>, query: URLSearchParams): Record<string, unknown> {
  const fields = query.get('fields')?.split(',');
  if (!fields) return view;
  const areShown = flag(query, 'include_fields') ?? true;
  return Object.fromEntries(Object.entries(view).filter(([name]) => fields.includes(name) === areShown));
}
