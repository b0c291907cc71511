import type { Variables } from '../configuration/variables.js';

export interface RecordedReads {
  /** The variables, which record the names that are read. */
  readonly variables: Variables;
  /** The names that were read; undefined if all of them were listed, so that any of them may matter. */
  names(): readonly string[] | undefined;
}

/**
 * Records which variables a schema reads. Standard Schema has no way to ask for the names, and every library reads the
 * members that a schema declares, set or not.
 */
export function recordReads(variables: Variables): RecordedReads {
  const names = new Set<string>();
  let isListed = false;
  const recorded = new Proxy(variables, {
    get: (target, name) => {
      if (typeof name === 'string') names.add(name);
      return Reflect.get(target, name) as unknown;
    },
    ownKeys: (target) => {
      isListed = true;
      return Reflect.ownKeys(target);
    },
  });
  return { variables: recorded, names: () => (isListed ? undefined : [...names]) };
}
