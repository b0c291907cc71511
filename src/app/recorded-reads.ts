import type { Variables } from '../configuration/variables.js';

export interface RecordedReads {
  readonly variables: Variables;
  /** The names of the variables that the schema read; undefined if it listed all names, because any may then matter. */
  names(): readonly string[] | undefined;
}

/**
 * Records which variables a schema reads. Standard Schema can't list the variables that a schema declares, but
 * libraries such as Zod read each of them, even if it isn't set.
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
