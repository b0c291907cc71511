export type Members = Readonly<Record<string, unknown>>;

/**
 * The wanted members that `present` lacks, with the values they should have. Lists and objects are merged with what is
 * present.
 */
export function lacking(present: Members, wanted: Members): Record<string, unknown> {
  const entries = Object.entries(wanted).map(([name, value]) => [name, present[name], value] as const);
  return Object.fromEntries(entries.filter(([, has, value]) => !includes(has, value)).map(([name, has, value]) => [name, joined(has, value)]));
}

function includes(has: unknown, value: unknown): boolean {
  if (isList(value)) return isList(has) && value.every((item) => has.includes(item));
  if (isMembers(value)) return isMembers(has) && Object.keys(lacking(has, value)).length === 0;
  return has === value;
}

function joined(has: unknown, value: unknown): unknown {
  if (isList(value) && isList(has)) return [...new Set([...has, ...value])];
  return isMembers(value) && isMembers(has) ? { ...has, ...value } : value;
}

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);
const isMembers = (value: unknown): value is Members => typeof value === 'object' && value !== null && !isList(value);
