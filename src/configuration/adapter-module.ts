import { z } from 'zod';
import type { Variables } from './variables.js';

const PREFIX = 'module:';

/** A module of a team whose default export is an adapter. */
export interface AdapterModule {
  readonly adapter: 'module';
  /** The variable that names the module. */
  readonly variable: string;
  /** A path, relative to the working directory, or the name of a package. */
  readonly specifier: string;
  /** All environment variables that are set. The adapter validates its own variables among them. */
  readonly variables: Variables;
}

/** A schema for a variable that names one of the service's own adapters, or a team's module after `module:`. */
export function adapterName<const Names extends readonly string[]>(...names: Names) {
  const message = `must be ${names.map((name) => `"${name}"`).join(' or ')}, or "module:" and a path or package`;
  return z.union([z.enum(names), z.templateLiteral([PREFIX, z.string().regex(/^\S.*$/)])], message);
}

/** The module that a variable names; undefined if it names one of the service's own adapters. */
export function adapterModule(variable: string, value: string, variables: Variables): AdapterModule | undefined {
  return value.startsWith(PREFIX) ? { adapter: 'module', variable, specifier: value.slice(PREFIX.length), variables } : undefined;
}
