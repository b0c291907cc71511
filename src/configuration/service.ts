import { z } from 'zod';
import { ADMIN_SECRET, ADMIN_SECRET_RULE } from '../identity-management/adapters/out/embedded/admin-secret.js';
import { adapterModule, adapterName, type AdapterVariable, namesAdapterModule } from './adapter-module.js';
import { EVENTS_NAMES, EVENTS_VARIABLES } from './events.js';
import { IDENTITY_PROVIDERS } from './identity.js';
import { readSecretFiles, SECRET_FILE_NAMES } from './secret-files.js';
import { SERVED_VARIABLES, servedAddress } from './served-address.js';
import { FILE_STORAGES } from './storage.js';
import { areTracesOn, TRACING_SCHEMAS, TRACING_VARIABLES } from './tracing.js';
import { NO_OTHER_READERS, type OtherReaders, unknownVariables } from './unknown-variables.js';
import { EnvironmentError, httpUrl, MAX_TIMEOUT_MS, oneOf, onlySet, plainText, problemOf, readVariables, type Variables, whole } from './variables.js';

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const isOrigin = (text: string): boolean => text === '*' || (URL.canParse(text) && new URL(text).origin === text);

export const SERVICE_VARIABLES = {
  NODE_ENV: plainText.optional(),
  ...SERVED_VARIABLES,
  TRUST_PROXY: whole(0, 0, 100),
  DATA_DIR: plainText.default('./data'),
  FILE_STORAGE: adapterName('local', 's3', 'azure').default('local'),
  IDENTITY_PROVIDER: adapterName('embedded', 'keycloak', 'auth0').default('embedded'),
  OIDC_ISSUER: httpUrl.optional(),
  OIDC_AUDIENCE: plainText.default('load-data-api'),
  EMBEDDED_ADMIN_SECRET: z.string().regex(ADMIN_SECRET, `must be ${ADMIN_SECRET_RULE}`).optional(),
  INGESTION_AUTH: oneOf('open', 'required').default('open'),
  MAX_UPLOAD_BYTES: whole(5_368_709_120, 1, Number.MAX_SAFE_INTEGER),
  MAX_JSON_BYTES: whole(10_485_760, 1, 268_435_456),
  CORS_ORIGINS: z
    .string()
    .transform((list) => list.split(',').map((origin) => origin.trim()))
    .refine((origins) => origins.every(isOrigin), 'must be origins such as https://app.example.com, separated by commas')
    .default([]),
  SWAGGER_UI_CLIENT_ID: plainText.optional(),
  RETENTION_DAYS: whole(0, 0, 36_500),
  RATE_LIMIT_PER_MINUTE: whole(0, 0, 1_000_000_000),
  REQUEST_TIMEOUT_MS: whole(7_200_000, 1, MAX_TIMEOUT_MS),
  REQUEST_IDLE_TIMEOUT_MS: whole(60_000, 1, MAX_TIMEOUT_MS),
  SHUTDOWN_DELAY_MS: whole(0, 0, MAX_TIMEOUT_MS),
  SHUTDOWN_TIMEOUT_MS: whole(10_000, 0, MAX_TIMEOUT_MS),
  LOG_LEVEL: oneOf(...LOG_LEVELS).default('info'),
  LOG_SAMPLE: whole(1, 1, 1_000_000),
  LOG_CUSTOMERS: oneOf('true', 'false').default('false'),
  LOG_SUBJECTS: oneOf('true', 'false').default('false'),
};

const VARIABLES = z.object(SERVICE_VARIABLES);

const KNOWN_NAMES = [
  ...Object.keys(SERVICE_VARIABLES),
  ...[...Object.values(FILE_STORAGES), ...Object.values(IDENTITY_PROVIDERS)].flatMap(({ in: { shape } }) => Object.keys(shape)),
  ...EVENTS_NAMES,
  ...Object.keys(TRACING_SCHEMAS),
  ...SECRET_FILE_NAMES,
  ...['KEYCLOAK_ADMIN_USERNAME', 'KEYCLOAK_ADMIN_PASSWORD', 'AUTH0_SETUP_CLIENT_ID', 'AUTH0_SETUP_CLIENT_SECRET', 'AUTH0_CHECK_DOMAIN'],
];

const SECRETS_OF_SET_UPS = ['KEYCLOAK_ADMIN_PASSWORD', 'AUTH0_SETUP_CLIENT_SECRET'];

export type Environment = Readonly<NonNullable<ReturnType<typeof checkEnvironment>['settings']>> & {
  readonly warnings: readonly string[];
};

/**
 * Validates the environment variables of the service. An empty variable counts as unset.
 *
 * @throws EnvironmentError with one line for each problem.
 */
export function parseEnvironment(variables: Variables): Environment {
  const { settings, problems, warnings } = checkEnvironment(variables);
  if (!settings) throw new EnvironmentError(problems);
  return { ...settings, warnings: warnings() };
}

/**
 * Validates the environment variables of the service, but not those of a team's modules.
 *
 * @returns the settings, undefined if there are problems; one line per problem; the modules of a team; and a function
 * that returns the warnings of `Environment`.
 * @throws EnvironmentError, if there are no other problems, when PUBLIC_URL doesn't end with BASE_PATH.
 */
export function checkEnvironment(variables: Variables) {
  const given = onlySet(variables);
  const storageName = VARIABLES.shape.FILE_STORAGE.catch('local').parse(given.FILE_STORAGE);
  const providerName = VARIABLES.shape.IDENTITY_PROVIDER.catch('embedded').parse(given.IDENTITY_PROVIDER);
  const unread = unreadSecretFiles(given, [storageName, providerName]);
  const { found: set, failed, problems: fileProblems } = readSecretFiles({ ...given, ...Object.fromEntries(unread.map((name) => [name, undefined])) });
  const parsed = VARIABLES.safeParse(set);
  const fileStorage = chosen('FILE_STORAGE', FILE_STORAGES, storageName, set);
  const identityProvider = chosen('IDENTITY_PROVIDER', IDENTITY_PROVIDERS, providerName, set);
  const webhook = EVENTS_VARIABLES.safeParse(set);
  const tracing = TRACING_VARIABLES.safeParse(set);
  const modules = [fileStorage.data, identityProvider.data].filter((chosen) => chosen?.adapter === 'module');
  const issues = [parsed, fileStorage, identityProvider, webhook, tracing].flatMap(({ error }) => error?.issues ?? []);
  const warnings = (others = NO_OTHER_READERS): string[] => [
    ...unusedVariables('FILE_STORAGE', FILE_STORAGES, storageName, given, others),
    ...unusedVariables('IDENTITY_PROVIDER', IDENTITY_PROVIDERS, providerName, given, others),
    ...unusedSecret(set),
    ...unlikelyIssuer(set),
    ...unknownVariables(Object.keys(set), KNOWN_NAMES, others),
  ];
  // Two schemas may report the same problem: the service's and Auth0's both contain OIDC_AUDIENCE and NODE_ENV.
  const problems = [...new Set([...fileProblems, ...issues.filter(({ path }) => !failed.includes(path.join('.'))).map((issue) => problemOf(issue, set))])];
  const checked = { problems, modules, warnings };
  if (fileProblems.length > 0 || !parsed.success || !fileStorage.success || !identityProvider.success || !webhook.success || !tracing.success) return { ...checked, settings: undefined };
  return { ...checked, settings: settingsOf(parsed.data, { fileStorage: fileStorage.data, identityProvider: identityProvider.data, webhook: webhook.data, tracing: tracing.data }) };
}

/**
 * The secrets' files that the service doesn't need, so that it runs where they are missing: those of set-ups, of adapters
 * that aren't chosen, and of traces that aren't made. A module of a team may need any of them.
 */
function unreadSecretFiles(variables: Variables, chosen: readonly string[]): string[] {
  if (namesAdapterModule(variables)) return [];
  const adapters = Object.entries<AdapterSchemas[string]>({ ...FILE_STORAGES, ...IDENTITY_PROVIDERS });
  const namesOfOthers = adapters.filter(([adapter]) => !chosen.includes(adapter)).flatMap(([, { in: { shape } }]) => Object.keys(shape));
  return [...SECRETS_OF_SET_UPS, ...namesOfOthers.filter((name) => !(name in SERVICE_VARIABLES)), ...(areTracesOn(variables) ? [] : ['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'])]
    .map((name) => `${name}_FILE`)
    .filter((name) => SECRET_FILE_NAMES.includes(name));
}

function settingsOf<Others extends object>(found: z.infer<typeof VARIABLES>, others: Others) {
  return {
    ...others,
    production: found.NODE_ENV === 'production',
    ...servedAddress(found),
    port: found.PORT,
    trustProxy: found.TRUST_PROXY,
    dataDirectory: found.DATA_DIR,
    oidc: { issuer: found.OIDC_ISSUER, audience: found.OIDC_AUDIENCE },
    embeddedAdminSecret: found.EMBEDDED_ADMIN_SECRET,
    ingestionAuthorization: found.INGESTION_AUTH,
    maxUploadBytes: found.MAX_UPLOAD_BYTES,
    maxJsonBytes: found.MAX_JSON_BYTES,
    corsOrigins: found.CORS_ORIGINS,
    swaggerUiClientId: found.SWAGGER_UI_CLIENT_ID,
    retentionDays: found.RETENTION_DAYS,
    rateLimitPerMinute: found.RATE_LIMIT_PER_MINUTE,
    requestTimeoutMs: found.REQUEST_TIMEOUT_MS,
    requestIdleTimeoutMs: found.REQUEST_IDLE_TIMEOUT_MS,
    shutdownDelayMs: found.SHUTDOWN_DELAY_MS,
    shutdownTimeoutMs: found.SHUTDOWN_TIMEOUT_MS,
    logLevel: found.LOG_LEVEL,
    logSample: found.LOG_SAMPLE,
    logCustomers: found.LOG_CUSTOMERS === 'true',
    logSubjects: found.LOG_SUBJECTS === 'true',
  };
}

function chosen<Schemas extends Readonly<Record<string, z.ZodType>>>(variable: AdapterVariable, schemas: Schemas, name: (keyof Schemas & string) | `module:${string}`, set: Variables) {
  const module = adapterModule(variable, name, set);
  return module ? { success: true as const, data: module, error: undefined } : (schemas[name] as Schemas[keyof Schemas]).safeParse(set);
}

type AdapterSchemas = Readonly<Record<string, { readonly in: { readonly shape: object } }>>;

/** Warns of the variables of adapters that aren't chosen. Without FILE_STORAGE, nobody else would notice an unused bucket. */
function unusedVariables(variable: AdapterVariable, schemas: AdapterSchemas, chosen: string, set: Variables, { declared, readUndeclared }: OtherReaders): string[] {
  if (readUndeclared) return [];
  const notChosen = Object.entries(schemas).filter(([adapter]) => adapter !== chosen);
  const unused = notChosen.flatMap(([adapter, { in: { shape } }]) => {
    const ownNames = Object.keys(shape).filter((name) => name.startsWith(`${adapter.toUpperCase()}_`));
    return ownNames.flatMap((name) => [name, `${name}_FILE`]).filter((name) => set[name] !== undefined && !declared.includes(name));
  });
  return unused.length === 0 ? [] : [`${unused.join(', ')}: without effect, because ${variable} is "${chosen}"`];
}

const unusedSecret = ({ EVENTS_WEBHOOK_URL: url, EVENTS_WEBHOOK_SECRET: secret }: Variables): string[] =>
  secret !== undefined && url === undefined ? ['EVENTS_WEBHOOK_SECRET: without effect, because EVENTS_WEBHOOK_URL is not set'] : [];

const unlikelyIssuer = ({ IDENTITY_PROVIDER: adapter, OIDC_ISSUER: issuer }: Variables): string[] =>
  adapter === 'auth0' && issuer !== undefined && URL.canParse(issuer) && !(issuer.endsWith('/') && new URL(issuer).href === issuer)
    ? ['OIDC_ISSUER: the issuers of Auth0 are in lower case and end with "/"; with another issuer, all tokens are refused']
    : [];

/**
 * Loads and validates the environment variables of the service, from the process's environment and the file `.env`.
 *
 * @param overriding variables that take precedence over both.
 * @throws EnvironmentError with one line for each problem; also when `.env` exists but can't be read, or has a line
 * that isn't of the form NAME=value.
 */
export const loadEnvironment = (overriding: Variables = {}): Environment => parseEnvironment({ ...readVariables(), ...overriding });
