import type { OtherReaders } from '../configuration/unknown-variables.js';
import { checkEnvironment, type Environment } from '../configuration/service.js';
import { EnvironmentError, type Variables } from '../configuration/variables.js';
import { loadAdapter } from './team-adapter.js';

/**
 * Validates the variables of the service, and those of a team's modules that FILE_STORAGE and IDENTITY_PROVIDER name.
 *
 * @param readUndeclared whether other code of a team may read any variable.
 * @throws EnvironmentError with one line for each problem of a variable or a module; any error that a module's schema
 * throws.
 */
export async function loadEnvironmentWithAdapters(variables: Variables, readUndeclared = false): Promise<Environment> {
  const { settings, problems, modules, warnings } = checkEnvironment(variables);
  const results = await Promise.allSettled(modules.map((module) => loadAdapter(module)));
  const others: OtherReaders[] = [];
  const all = [...problems];
  for (const result of results) {
    if (result.status === 'fulfilled') others.push({ declared: result.value.declared ?? [], readUndeclared: result.value.declared === undefined });
    else if (result.reason instanceof EnvironmentError) all.push(...result.reason.problems);
    else throw result.reason;
  }
  if (!settings || all.length > 0) throw new EnvironmentError(all);
  return {
    ...settings,
    warnings: warnings({ declared: others.flatMap(({ declared }) => declared), readUndeclared: readUndeclared || others.some((other) => other.readUndeclared) }),
  };
}
