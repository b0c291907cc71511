import { flag } from './paging.js';

/** Reduces an answer to the members named in `fields`, or to all others with `include_fields=false`. */
export function withFields(view: Record<string, unknown>, query: URLSearchParams): Record<string, unknown> {
  const fields = query.get('fields')?.split(',');
  if (!fields) return view;
  const areShown = flag(query, 'include_fields') ?? true;
  return Object.fromEntries(Object.entries(view).filter(([name]) => fields.includes(name) === areShown));
}
