import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { AuthenticationOptions } from '../authentication/authentication.options.js';
import { messageOf } from '../common/error-message.js';
import { oneLine } from '../common/text.js';
import type { AdapterModule, AdapterVariable } from '../configuration/adapter-module.js';
import { EnvironmentError, problemOf, type Variables } from '../configuration/variables.js';
import type { IdentityProvider } from '../identity-management/application/ports/identity-provider.port.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import { recordReads } from './recorded-reads.js';

/** Settings of the service that an adapter of a team (`module:`) may need. */
export interface AdapterContext {
  /** The value of DATA_DIR. */
  readonly dataDirectory: string;
  /** The value of MAX_UPLOAD_BYTES. */
  readonly maxUploadBytes: number;
  /** The values of OIDC_ISSUER and OIDC_AUDIENCE. */
  readonly oidc: { readonly issuer: string | undefined; readonly audience: string };
}

export const contextOf = ({ dataDirectory, maxUploadBytes, oidc }: AdapterContext): AdapterContext => ({ dataDirectory, maxUploadBytes, oidc });

type PathPart = PropertyKey | { readonly key: PropertyKey };
type Validated<Settings> =
  | { readonly value: Settings; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly PathPart[] | undefined }[] };

/**
 * A schema that validates environment variables, in the form of Standard Schema (https://standardschema.dev), such as a
 * Zod object. Its input has all variables that are set, by name. The names that it reads count as known, so the service
 * doesn't warn about them. If it lists all names, the service takes any variable for one that it may read. Its messages
 * are printed if the service refuses to start, so they must not contain values of variables.
 */
export interface VariablesSchema<Settings> {
  readonly '~standard': { readonly validate: (value: unknown) => Validated<Settings> | Promise<Validated<Settings>> };
}

interface Adapter<Port, Settings> {
  /**
   * The schema of the adapter's own environment variables. Its output is the `settings` of the adapter. Without a
   * schema, `settings` are all variables that are set, by name.
   */
  readonly variables?: VariablesSchema<Settings>;
  /**
   * The names of variables whose values are secrets, which the service doesn't quote in messages. If the schema rejects
   * another variable, the service quotes the beginning of its value, unless the variable's name or characters in the
   * value suggest a secret.
   */
  readonly secrets?: readonly string[];
  /**
   * Creates the adapter. Called once, before the service listens on its port. The service starts only if the adapter
   * was created.
   */
  create(settings: Settings, context: AdapterContext): Port | Promise<Port>;
}

/** The default export of a team's module that FILE_STORAGE names after `module:`. */
export type FileStorageAdapter<Settings = Variables> = Adapter<FileStorage, Settings>;

/** The default export of a team's module that IDENTITY_PROVIDER names after `module:`. */
export interface IdentityProviderAdapter<Settings = Variables> extends Adapter<IdentityProvider, Settings> {
  /** Returns which access tokens the service accepts: their issuer, their audience and the keys to verify them. */
  authentication(settings: Settings, context: AdapterContext): AuthenticationOptions;
}

/** The default export of a team's module, with the settings that its schema has made of the environment variables. */
export interface LoadedAdapter<Definition> {
  readonly definition: Definition;
  readonly settings: never;
  /** The names of the variables that the schema has read; undefined if the adapter may read any variable. */
  readonly declared: readonly string[] | undefined;
}

/** The functions that the default export must have, by the variable that names the module. */
const FUNCTIONS: Readonly<Record<AdapterVariable, readonly string[]>> = { FILE_STORAGE: ['create'], IDENTITY_PROVIDER: ['create', 'authentication'] };

/** The results of `loadAdapter`, by its argument, so that each module is imported and validated only once. */
const loaded = new WeakMap<AdapterModule, Promise<LoadedAdapter<never>>>();

/**
 * Imports a team's module, and checks its default export and its environment variables. If it is called again with the
 * same object as `module`, returns the result of the first call. `module.specifier` is a path (absolute, or relative to
 * the working directory and beginning with `./` or `../`) or the name of a package that is installed for the working
 * directory or beside the service.
 *
 * @throws EnvironmentError with one line for each problem of the module and of its environment variables; any error
 * that the team's schema throws, unchanged.
 */
export function loadAdapter<Definition extends Adapter<unknown, never>>(module: AdapterModule): Promise<LoadedAdapter<Definition>> {
  const loading = loaded.get(module) ?? importAdapter(module);
  loaded.set(module, loading);
  return loading;
}

async function importAdapter({ variable, specifier, variables }: AdapterModule): Promise<LoadedAdapter<never>> {
  const imported = (await import(importable(specifier)).catch((error: unknown) => {
    throw refusal(variable, `${specifier} can't be imported: ${messageOf(error)}`);
  })) as { default?: unknown };
  const definition = defaultExportOf(imported);
  const missing = FUNCTIONS[variable].filter((member) => !hasMethod(definition, member));
  if (missing.length > 0) throw refusal(variable, `the default export of ${specifier} has no function ${missing.map((member) => `"${member}"`).join(', ')}`);
  return { definition: definition as never, ...(await settingsOf(definition as Adapter<unknown, unknown>, variable, variables)) };
}

/**
 * The default export of an imported module. TypeScript compiles `export default` to a property of a CommonJS module's
 * exports, and Node.js imports all exports of such a module as its default export.
 */
function defaultExportOf(imported: { readonly default?: unknown }): unknown {
  const exported = imported.default as { readonly __esModule?: unknown; readonly default?: unknown } | null | undefined;
  return exported?.__esModule === true ? exported.default : exported;
}

/** Converts the path or the package's name of a team's module to a text that `import` accepts in this file. */
function importable(specifier: string): string {
  if (/^\.{0,2}\//.test(specifier)) return pathToFileURL(resolve(specifier)).href;
  try {
    return pathToFileURL(createRequire(resolve('package.json')).resolve(specifier)).href;
  } catch {
    // The package isn't installed for the working directory, or its exports are only for `import`, not for `require`.
    // In both cases, `import` looks for the package beside the service.
    return specifier;
  }
}

/**
 * Creates the adapter of a team's module that `loadAdapter` has imported.
 *
 * @throws EnvironmentError when the adapter can't be created, or lacks one of `methods`.
 */
export async function createAdapter<Port extends object>(
  module: AdapterModule,
  { definition, settings }: LoadedAdapter<Adapter<Port, never>>,
  context: AdapterContext,
  methods: readonly (keyof Port & string)[],
): Promise<Port> {
  const { variable, specifier } = module;
  const created = Promise.resolve().then(() => definition.create(settings, context));
  const adapter = await created.catch((error: unknown) => {
    throw refusal(variable, `${specifier} can't create its adapter: ${messageOf(error)}`);
  });
  const missing = methods.filter((method) => !hasMethod(adapter, method));
  if (missing.length > 0) throw refusal(variable, `the adapter of ${specifier} has no method ${missing.map((method) => `"${method}"`).join(', ')}`);
  return adapter;
}

async function settingsOf({ variables: schema, secrets }: Adapter<unknown, unknown>, variable: AdapterVariable, variables: Variables): Promise<Omit<LoadedAdapter<never>, 'definition'>> {
  if (!schema) return { settings: variables as never, declared: undefined };
  const reads = recordReads(variables);
  const { value, issues } = (await schema['~standard'].validate(reads.variables)) as { value: never; issues?: Validated<unknown>['issues'] };
  if (issues === undefined) return { settings: value, declared: reads.names() };
  // A problem without a path concerns no single variable. It is reported under the variable that names the module.
  throw new EnvironmentError(issues.map(({ path = [], message }) => problemOf({ path: path.length > 0 ? path.map(nameOf) : [variable], message }, variables, secrets)));
}

const nameOf = (part: PathPart): string => String(typeof part === 'object' ? part.key : part);

const hasMethod = (value: unknown, name: string): boolean =>
  typeof value === 'object' && value !== null && typeof (value as Readonly<Record<string, unknown>>)[name] === 'function';

const refusal = (variable: string, problem: string): EnvironmentError => new EnvironmentError([oneLine(`${variable}: ${problem}`)]);
