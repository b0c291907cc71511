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
import { hasShutdown } from './created-instances.js';
import { recordReads } from './recorded-reads.js';

/** Settings of the service that a team's adapter (`module:`) may need. */
export interface AdapterContext {
  readonly dataDirectory: string;
  readonly maxUploadBytes: number;
  readonly oidc: { readonly issuer: string | undefined; readonly audience: string };
}

export const contextOf = ({ dataDirectory, maxUploadBytes, oidc }: AdapterContext): AdapterContext => ({ dataDirectory, maxUploadBytes, oidc });

type PathPart = PropertyKey | { readonly key: PropertyKey };
type Validated<Settings> =
  | { readonly value: Settings; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly PathPart[] | undefined }[] };

/**
 * A schema of environment variables in the form of Standard Schema (https://standardschema.dev), such as a Zod object.
 * The schema's input is an object of all variables that are set. The service doesn't warn about variables that the
 * schema reads. The schema's messages are printed, so they must not contain values of variables.
 */
export interface VariablesSchema<Settings> {
  readonly '~standard': { readonly validate: (value: unknown) => Validated<Settings> | Promise<Validated<Settings>> };
}

interface Adapter<Port, Settings> {
  /** The schema's output is the adapter's `settings`. Without a schema, `settings` are all variables that are set. */
  readonly variables?: VariablesSchema<Settings>;
  /** Names of variables whose values error messages must not quote. The beginning of other values may be quoted. */
  readonly secrets?: readonly string[];
  /** Creates the adapter. Called once for each application, before it listens on its port. */
  create(settings: Settings, context: AdapterContext): Port | Promise<Port>;
}

/** The default export of a team's module that FILE_STORAGE names after `module:`. */
export type FileStorageAdapter<Settings = Variables> = Adapter<FileStorage, Settings>;

/** The default export of a team's module that IDENTITY_PROVIDER names after `module:`. */
export interface IdentityProviderAdapter<Settings = Variables> extends Adapter<IdentityProvider, Settings> {
  authentication(settings: Settings, context: AdapterContext): AuthenticationOptions;
}

export interface LoadedAdapter<Definition> {
  readonly definition: Definition;
  readonly settings: never;
  /** The names of the variables that the schema has read; undefined if the adapter may read any variable. */
  readonly declared: readonly string[] | undefined;
}

const FUNCTIONS: Readonly<Record<AdapterVariable, readonly string[]>> = { FILE_STORAGE: ['create'], IDENTITY_PROVIDER: ['create', 'authentication'] };

/** The results of `loadAdapter`, by its argument, so that each module is imported and validated only once. */
const loaded = new WeakMap<AdapterModule, Promise<LoadedAdapter<never>>>();

/**
 * Imports a team's module and validates its environment variables, once per `module` object. `module.specifier` is a
 * path (absolute, or relative to the working directory and beginning with `./` or `../`), or the name of a package that
 * is installed for the working directory or beside the service.
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
 * The default export of a module. Node imports all exports of a CommonJS module as its default export. In one that
 * TypeScript compiled, the member `default` of these exports is the module's own default export.
 */
function defaultExportOf(imported: { readonly default?: unknown }): unknown {
  const exported = imported.default as { readonly __esModule?: unknown; readonly default?: unknown } | null | undefined;
  return exported?.__esModule === true ? exported.default : exported;
}

function importable(specifier: string): string {
  if (/^\.{0,2}\//.test(specifier)) return pathToFileURL(resolve(specifier)).href;
  try {
    return pathToFileURL(createRequire(resolve('package.json')).resolve(specifier)).href;
  } catch {
    // The package isn't installed for the working directory, or its exports are only for `import`, not for `require`.
    // In both cases, the caller's `import` looks for the package beside the service.
    return specifier;
  }
}

/**
 * Creates the adapter of a team's module that `loadAdapter` has imported.
 *
 * @throws EnvironmentError when the adapter can't be created, or one of `methods` is missing; then closing it has
 *   begun.
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
  if (missing.length === 0) return adapter;
  const refused = refusal(variable, `the adapter of ${specifier} has no method ${missing.map((method) => `"${method}"`).join(', ')}`);
  // Neither an error of closing nor a closing that doesn't end must hide what is wrong with the adapter.
  if (hasShutdown(adapter)) void Promise.resolve(adapter).then((each): unknown => each.onApplicationShutdown()).catch(() => undefined);
  throw refused;
}

async function settingsOf({ variables: schema, secrets }: Adapter<unknown, unknown>, variable: AdapterVariable, variables: Variables): Promise<Omit<LoadedAdapter<never>, 'definition'>> {
  if (!schema) return { settings: variables as never, declared: undefined };
  const reads = recordReads(variables);
  const { value, issues } = (await schema['~standard'].validate(reads.variables)) as { value: never; issues?: Validated<unknown>['issues'] };
  if (issues === undefined) return { settings: value, declared: reads.names() };
  // A problem without a path concerns no single variable, so it is reported for the variable that names the module.
  throw new EnvironmentError(issues.map(({ path = [], message }) => problemOf({ path: path.length > 0 ? path.map(nameOf) : [variable], message }, variables, secrets)));
}

const nameOf = (part: PathPart): string => String(typeof part === 'object' ? part.key : part);

const hasMethod = (value: unknown, name: string): boolean =>
  typeof value === 'object' && value !== null && typeof (value as Readonly<Record<string, unknown>>)[name] === 'function';

const refusal = (variable: string, problem: string): EnvironmentError => new EnvironmentError([oneLine(`${variable}: ${problem}`)]);
