import { flag } from './paging.js';

/** What is left of an answer where `fields` names members to show, or to leave out. */
export function withFields(view: Record<string, unknown>, query: URLSearchParams): Record<string, unknown> {
  const fields = query.get('fields')?.split(',');
  if (!fields) return view;
  const areShown = flag(query, 'include_fields') ?? true;
  return Object.fromEntries(Object.entries(view).filter(([name]) => fields.includes(name) === areShown));
}
