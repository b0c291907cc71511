import type { Variables } from '../configuration/variables.js';

export interface RecordedReads {
  readonly variables: Variables;
  /** The names that were read; undefined if the schema listed all names, because any variable may then matter. */
  names(): readonly string[] | undefined;
}

/**
 * Records which variables a schema reads. Standard Schema can't list them, but every library reads all members that a
 * schema declares, even those that aren't set.
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
