import { z } from 'zod';
import type { Variables } from './variables.js';

const PREFIX = 'module:';

const VARIABLES = ['FILE_STORAGE', 'IDENTITY_PROVIDER'] as const;

export type AdapterVariable = (typeof VARIABLES)[number];

export interface AdapterModule {
  readonly adapter: 'module';
  readonly variable: AdapterVariable;
  /** The path (absolute, or relative to the working directory and beginning with `./` or `../`) or package name. */
  readonly specifier: string;
  /** All variables that are set and not empty, with secrets in place of the paths of their files. */
  readonly variables: Variables;
}

/** A schema for the name of one of the service's own adapters, or `module:` and a team's module. */
export function adapterName<const Names extends readonly string[]>(...names: Names) {
  const message = `must be ${names.map((name) => `"${name}"`).join(' or ')}, or "module:" and a path or package`;
  return z.union([z.enum(names), z.templateLiteral([PREFIX, z.string().regex(/^\S.*$/)])], message);
}

/** The module that a variable names after `module:`; undefined if it names one of the service's own adapters. */
export function adapterModule(variable: AdapterVariable, value: string, variables: Variables): AdapterModule | undefined {
  return value.startsWith(PREFIX) ? { adapter: 'module', variable, specifier: value.slice(PREFIX.length), variables } : undefined;
}

/** Whether FILE_STORAGE or IDENTITY_PROVIDER names a team's module. */
export const namesAdapterModule = (variables: Variables): boolean => VARIABLES.some((variable) => variables[variable]?.startsWith(PREFIX));
