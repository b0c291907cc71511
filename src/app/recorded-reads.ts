import type { Variables } from '../configuration/variables.js';

export interface RecordedReads {
  /** A view of the variables. It records the name of each variable that is read through it. */
  readonly variables: Variables;
  /** The names that were read; undefined if the schema listed all names, because any variable may then matter. */
  names(): readonly string[] | undefined;
}

/**
 * Records which variables a schema reads. Standard Schema has no way to ask a schema for the names of its variables.
 * But every library reads all members that a schema declares, even those that aren't set.
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
