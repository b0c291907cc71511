import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { ADMIN_SECRET } from '../identity-management/adapters/out/embedded/admin-secret.js';

/** What the environment variables say, checked. README's table tells what each means. */
export interface Environment {
  readonly production: boolean;
  readonly host: string;
  readonly port: number;
  /** Empty, or with a leading and no trailing slash. */
  readonly basePath: string;
  /** Without a trailing slash. */
  readonly publicUrl: string | undefined;
  readonly trustProxy: number;
  readonly dataDirectory: string;
  readonly fileStorage: { readonly adapter: 'local' } | BucketEnvironment;
  readonly identityProvider: { readonly adapter: 'embedded' } | KeycloakEnvironment | Auth0Environment;
  readonly oidc: { readonly issuer: string | undefined; readonly audience: string };
  readonly embeddedAdminSecret: string | undefined;
  readonly ingestionAuthorization: 'open' | 'required';
  readonly maxUploadBytes: number;
  readonly maxJsonBytes: number;
  readonly corsOrigins: readonly string[];
  /** The public client with which people log in from Swagger UI, at a provider other than the embedded one. */
  readonly swaggerUiClientId: string | undefined;
  readonly rateLimitPerMinute: number;
  readonly requestTimeoutMs: number;
  readonly requestIdleTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  readonly logLevel: LogLevel;
  /** What is right and may still be a mistake; each a line that names variables, and holds no value of theirs. */
  readonly warnings: readonly string[];
}

interface Bucketed {
  /** The longest that a call to the store may stay without progress, in milliseconds. */
  readonly timeoutMs: number;
}

/** Where a bucket is, and who may use it. */
export type BucketEnvironment =
  | (Bucketed & {
      readonly adapter: 's3';
      readonly bucket: string;
      /** Empty, or with a trailing and no leading slash. */
      readonly prefix: string;
      readonly region: string | undefined;
      readonly endpoint: string | undefined;
      readonly forcePathStyle: boolean;
    })
  | (Bucketed & {
      readonly adapter: 'azure';
      readonly container: string;
      readonly account: { readonly connectionString: string } | { readonly url: string };
    });

/** Where Keycloak is, and who the service is there. */
export interface KeycloakEnvironment {
  readonly adapter: 'keycloak';
  /** Without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Whether new users get a mail with which they set their password. */
  readonly invitationMail: boolean;
}

/** Which tenant of Auth0's, and who the service is there. */
export interface Auth0Environment {
  readonly adapter: 'auth0';
  /** Where the tenant is, without a trailing slash. */
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The name of the database connection that new users come into. */
  readonly connection: string;
  /** Whether new users get a mail with which they set their password. */
  readonly invitationMail: boolean;
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** One or more variables are wrong; each of `problems` is a line that names one, and holds no value. */
export class EnvironmentError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'EnvironmentError';
  }
}

const HIGHEST_TIMEOUT_MS = 2 ** 31 - 1;

function whole(fallback: number, least: number, most: number) {
  const message = `must be a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,16}$/, message)
    .transform(Number)
    .pipe(z.number().min(least, message).max(most, message))
    .default(fallback);
}

function oneOf<const Names extends readonly string[]>(...names: Names) {
  return z.enum(names, `must be ${names.map((name) => `"${name}"`).join(' or ')}`);
}

const isOrigin = (text: string): boolean => text === '*' || (URL.canParse(text) && new URL(text).origin === text);

const httpUrl = z.string().refine((text) => {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text) || /[?#]/.test(text)) return false;
  const url = new URL(text);
  return url.username === '' && url.password === '';
}, 'must be an http or https URL without user, query or fragment');

const text = (pattern: RegExp, message: string) => z.string().regex(pattern, message);
const required = z.string({ error: ({ input }) => (input === undefined ? 'must be set' : undefined) });

const TIMEOUT = { STORAGE_TIMEOUT_MS: whole(30_000, 1, HIGHEST_TIMEOUT_MS) };

const S3_VARIABLES = z
  .object({
    ...TIMEOUT,
    S3_BUCKET: required,
    S3_PREFIX: text(/^(?!\/)(?!.*\/\/)(?!(?:.*\/)?\.{1,2}(?:\/|$))[A-Za-z0-9._=/-]+$/, 'must be letters, digits and . _ = - with single slashes between, and no part of it . or ..').optional(),
    S3_REGION: text(/^[A-Za-z0-9-]+$/, 'must be the name of a region').optional(),
    S3_ENDPOINT: httpUrl.optional(),
    S3_FORCE_PATH_STYLE: oneOf('true', 'false').default('false'),
  })
  .transform((found): BucketEnvironment => ({
    adapter: 's3',
    bucket: found.S3_BUCKET,
    prefix: found.S3_PREFIX === undefined ? '' : `${found.S3_PREFIX.replace(/\/$/, '')}/`,
    region: found.S3_REGION,
    endpoint: found.S3_ENDPOINT,
    forcePathStyle: found.S3_FORCE_PATH_STYLE === 'true',
    timeoutMs: found.STORAGE_TIMEOUT_MS,
  }));

const ONE_ACCOUNT = 'must be set, or AZURE_STORAGE_ACCOUNT_URL, and not both';

const AZURE_VARIABLES = z
  .object({
    ...TIMEOUT,
    AZURE_STORAGE_CONTAINER: required,
    AZURE_STORAGE_CONNECTION_STRING: z.string().optional(),
    AZURE_STORAGE_ACCOUNT_URL: httpUrl.optional(),
  })
  .transform((found, context): BucketEnvironment => {
    const { AZURE_STORAGE_CONNECTION_STRING: connectionString, AZURE_STORAGE_ACCOUNT_URL: url } = found;
    if ((connectionString === undefined) === (url === undefined)) {
      context.addIssue({ code: 'custom', path: ['AZURE_STORAGE_CONNECTION_STRING'], message: ONE_ACCOUNT });
    }
    return {
      adapter: 'azure',
      container: found.AZURE_STORAGE_CONTAINER,
      account: connectionString === undefined ? { url: url ?? '' } : { connectionString },
      timeoutMs: found.STORAGE_TIMEOUT_MS,
    };
  });

const FILE_STORAGES = { local: z.object({}).transform(() => ({ adapter: 'local' as const })), s3: S3_VARIABLES, azure: AZURE_VARIABLES };

const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

const KEYCLOAK_REALM = {
  KEYCLOAK_URL: required.pipe(httpUrl).transform(withoutSlash),
  // Those names that Keycloak makes realms of, but for the two that mean something else in a path.
  KEYCLOAK_REALM: required.regex(
    /^(?!\.{1,2}$)[^\p{Cc}\p{Cs}\\:/?#[\]@!$&()*+,;=]+$/u,
    'must be the name of a realm: not "." or "..", and without \\ : / ? # [ ] @ ! $ & ( ) * + , ; = and control characters',
  ),
};

const KEYCLOAK_VARIABLES = z
  .object({
    ...KEYCLOAK_REALM,
    KEYCLOAK_CLIENT_ID: required,
    KEYCLOAK_CLIENT_SECRET: required,
    KEYCLOAK_INVITATION_MAIL: oneOf('true', 'false').default('false'),
  })
  .transform((found): KeycloakEnvironment => ({
    adapter: 'keycloak',
    url: found.KEYCLOAK_URL,
    realm: found.KEYCLOAK_REALM,
    clientId: found.KEYCLOAK_CLIENT_ID,
    clientSecret: found.KEYCLOAK_CLIENT_SECRET,
    invitationMail: found.KEYCLOAK_INVITATION_MAIL === 'true',
  }));

/** A host name, or an address that begins with `http://`: a stand-in. */
const DOMAIN = /^(http:\/\/)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/;

const AUTH0_TENANT = {
  NODE_ENV: z.string().optional(),
  AUTH0_DOMAIN: required.regex(DOMAIN, 'must be a host name such as tenant.eu.auth0.com'),
  AUTH0_CONNECTION: z.string().default('Username-Password-Authentication'),
  OIDC_AUDIENCE: required,
};

/** Where the tenant is. */
function tenantUrl({ NODE_ENV, AUTH0_DOMAIN: domain }: { NODE_ENV?: string | undefined; AUTH0_DOMAIN: string }, context: z.RefinementCtx): string {
  const isPlain = domain.startsWith('http://');
  if (isPlain && NODE_ENV === 'production') {
    context.addIssue({ code: 'custom', path: ['AUTH0_DOMAIN'], message: 'must be a host name alone with NODE_ENV=production' });
  }
  return isPlain ? domain : `https://${domain}`;
}

const AUTH0_VARIABLES = z
  .object({
    ...AUTH0_TENANT,
    AUTH0_CLIENT_ID: required,
    AUTH0_CLIENT_SECRET: required,
    AUTH0_INVITATION_MAIL: oneOf('true', 'false').default('false'),
  })
  .transform((found, context): Auth0Environment => ({
    adapter: 'auth0',
    url: tenantUrl(found, context),
    clientId: found.AUTH0_CLIENT_ID,
    clientSecret: found.AUTH0_CLIENT_SECRET,
    connection: found.AUTH0_CONNECTION,
    invitationMail: found.AUTH0_INVITATION_MAIL === 'true',
  }));

const IDENTITY_PROVIDERS = {
  embedded: z.object({}).transform(() => ({ adapter: 'embedded' as const })),
  keycloak: KEYCLOAK_VARIABLES,
  auth0: AUTH0_VARIABLES,
};

const VARIABLES = z.object({
  NODE_ENV: z.string().optional(),
  HOST: z.string().regex(/^[A-Za-z0-9.:_-]+$/, 'must be an address or a host name').default('127.0.0.1'),
  PORT: whole(3000, 0, 65_535),
  BASE_PATH: z
    .string()
    .regex(/^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]+)+$/, 'must begin with "/" and not end with it, of letters, digits and . _ ~ -')
    .default(''),
  PUBLIC_URL: httpUrl.transform(withoutSlash).optional(),
  TRUST_PROXY: whole(0, 0, 100),
  DATA_DIR: z.string().default('./data'),
  FILE_STORAGE: oneOf('local', 's3', 'azure').default('local'),
  IDENTITY_PROVIDER: oneOf('embedded', 'keycloak', 'auth0').default('embedded'),
  OIDC_ISSUER: httpUrl.optional(),
  OIDC_AUDIENCE: z.string().default('load-data-api'),
  EMBEDDED_ADMIN_SECRET: z.string().regex(ADMIN_SECRET, 'must be at least 16 visible ASCII characters').optional(),
  INGESTION_AUTH: oneOf('open', 'required').default('open'),
  MAX_UPLOAD_BYTES: whole(5_368_709_120, 1, Number.MAX_SAFE_INTEGER),
  MAX_JSON_BYTES: whole(10_485_760, 1, 268_435_456),
  CORS_ORIGINS: z
    .string()
    .transform((list) => list.split(',').map((origin) => origin.trim()))
    .refine((origins) => origins.every(isOrigin), 'must be origins such as https://app.example.com, separated by commas')
    .default([]),
  SWAGGER_UI_CLIENT_ID: z.string().optional(),
  RATE_LIMIT_PER_MINUTE: whole(0, 0, 1_000_000_000),
  REQUEST_TIMEOUT_MS: whole(7_200_000, 1, HIGHEST_TIMEOUT_MS),
  REQUEST_IDLE_TIMEOUT_MS: whole(60_000, 1, HIGHEST_TIMEOUT_MS),
  SHUTDOWN_TIMEOUT_MS: whole(10_000, 0, HIGHEST_TIMEOUT_MS),
  LOG_LEVEL: oneOf(...LOG_LEVELS).default('info'),
});

type Variables = Readonly<Record<string, string | undefined>>;

const onlySet = (variables: Variables): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined && value !== ''));

const toProblem = ({ path, message }: z.core.$ZodIssue): string => `${path.join('.')}: ${message}`;

/**
 * Checks the variables; empty is unset.
 *
 * @throws EnvironmentError with a line for each wrong one.
 */
export function parseEnvironment(variables: Variables): Environment {
  const set = onlySet(variables);
  const parsed = VARIABLES.safeParse(set);
  const fileStorage = FILE_STORAGES[VARIABLES.shape.FILE_STORAGE.catch('local').parse(set.FILE_STORAGE)].safeParse(set);
  const identityProvider = IDENTITY_PROVIDERS[VARIABLES.shape.IDENTITY_PROVIDER.catch('embedded').parse(set.IDENTITY_PROVIDER)].safeParse(set);
  if (!parsed.success || !fileStorage.success || !identityProvider.success) {
    const issues = [parsed, fileStorage, identityProvider].flatMap(({ error }) => error?.issues ?? []);
    throw new EnvironmentError(issues.map(toProblem));
  }
  const found = parsed.data;
  assertBasePath(found);
  return {
    production: found.NODE_ENV === 'production',
    host: found.HOST,
    port: found.PORT,
    basePath: found.BASE_PATH,
    publicUrl: found.PUBLIC_URL,
    trustProxy: found.TRUST_PROXY,
    dataDirectory: found.DATA_DIR,
    fileStorage: fileStorage.data,
    identityProvider: identityProvider.data,
    oidc: { issuer: found.OIDC_ISSUER, audience: found.OIDC_AUDIENCE },
    embeddedAdminSecret: found.EMBEDDED_ADMIN_SECRET,
    ingestionAuthorization: found.INGESTION_AUTH,
    maxUploadBytes: found.MAX_UPLOAD_BYTES,
    maxJsonBytes: found.MAX_JSON_BYTES,
    corsOrigins: found.CORS_ORIGINS,
    swaggerUiClientId: found.SWAGGER_UI_CLIENT_ID,
    rateLimitPerMinute: found.RATE_LIMIT_PER_MINUTE,
    requestTimeoutMs: found.REQUEST_TIMEOUT_MS,
    requestIdleTimeoutMs: found.REQUEST_IDLE_TIMEOUT_MS,
    shutdownTimeoutMs: found.SHUTDOWN_TIMEOUT_MS,
    logLevel: found.LOG_LEVEL,
    warnings: warningsOf(set, found.IDENTITY_PROVIDER),
  };
}

function warningsOf(set: Variables, chosen: keyof typeof IDENTITY_PROVIDERS): string[] {
  const others = Object.entries(IDENTITY_PROVIDERS).filter(([adapter]) => adapter !== chosen);
  const unused = others.flatMap(([adapter, { in: { shape } }]) => {
    const ownNames = Object.keys(shape).filter((name) => name.startsWith(`${adapter.toUpperCase()}_`));
    return ownNames.filter((name) => set[name] !== undefined);
  });
  return unused.length === 0 ? [] : [`${unused.join(', ')}: without effect, because IDENTITY_PROVIDER is "${chosen}"`];
}

/**
 * The process's environment, with the file `.env` of the working directory beneath it.
 *
 * @throws EnvironmentError
 */
export const loadEnvironment = (): Environment => parseEnvironment(readVariables());

const { HOST, PORT, BASE_PATH, PUBLIC_URL, OIDC_ISSUER, OIDC_AUDIENCE, SWAGGER_UI_CLIENT_ID } = VARIABLES.shape;
const SERVED = { HOST, PORT, BASE_PATH, PUBLIC_URL };

const KEYCLOAK_SETUP_VARIABLES = z.object({
  ...{ ...SERVED, OIDC_ISSUER, OIDC_AUDIENCE },
  ...KEYCLOAK_REALM,
  KEYCLOAK_REALM: KEYCLOAK_REALM.KEYCLOAK_REALM.refine((realm) => realm !== 'master', "must be another realm than Keycloak's own"),
  KEYCLOAK_CLIENT_ID: z.string().default('load-data-service'),
  KEYCLOAK_CLIENT_SECRET: z.string().optional(),
  KEYCLOAK_ADMIN_USERNAME: z.string().optional(),
  KEYCLOAK_ADMIN_PASSWORD: z.string().optional(),
});

/** Where the service is served that an identity provider is set up for, and whose tokens it believes. */
export interface ServedEnvironment {
  readonly basePath: string;
  readonly publicUrl: string | undefined;
  /** The `{base_url}` that clients see. */
  readonly baseUrl: string;
  readonly oidc: { readonly issuer: string | undefined; readonly audience: string };
}

/** What a realm of Keycloak's is set up with. */
export interface KeycloakSetupEnvironment extends ServedEnvironment {
  /** Without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  readonly clientId: string;
  /** Of that client when it is made; Keycloak makes one up where there is none. */
  readonly clientSecret: string | undefined;
  /** Keycloak's administrator. */
  readonly username: string | undefined;
  readonly password: string | undefined;
}

/** As `parseEnvironment`, for the setup of Keycloak. */
export function parseKeycloakSetupEnvironment(variables: Variables): KeycloakSetupEnvironment {
  const found = parsed(KEYCLOAK_SETUP_VARIABLES, variables);
  return {
    ...served(found),
    url: found.KEYCLOAK_URL,
    realm: found.KEYCLOAK_REALM,
    clientId: found.KEYCLOAK_CLIENT_ID,
    clientSecret: found.KEYCLOAK_CLIENT_SECRET,
    username: found.KEYCLOAK_ADMIN_USERNAME,
    password: found.KEYCLOAK_ADMIN_PASSWORD,
  };
}

/** As `loadEnvironment`, for the setup of Keycloak. */
export const loadKeycloakSetupEnvironment = (): KeycloakSetupEnvironment => parseKeycloakSetupEnvironment(readVariables());

const AUTH0_SETUP_VARIABLES = z
  .object({
    ...{ ...SERVED, OIDC_ISSUER, SWAGGER_UI_CLIENT_ID },
    ...AUTH0_TENANT,
    AUTH0_CLIENT_ID: z.string().optional(),
    AUTH0_SETUP_CLIENT_ID: z.string().optional(),
    AUTH0_SETUP_CLIENT_SECRET: z.string().optional(),
  })
  .transform((found, context) => ({ ...found, url: tenantUrl(found, context) }));

/** What a tenant of Auth0's is set up with. */
export interface Auth0SetupEnvironment extends ServedEnvironment {
  /** As it was given. */
  readonly domain: string;
  /** Without a trailing slash. */
  readonly url: string;
  readonly connection: string;
  /** The applications, where they have been named. */
  readonly clientId: string | undefined;
  readonly swaggerUiClientId: string | undefined;
  /** The application that may set up the tenant. */
  readonly setupClientId: string | undefined;
  readonly setupClientSecret: string | undefined;
}

/** As `parseEnvironment`, for the setup of Auth0. */
export function parseAuth0SetupEnvironment(variables: Variables): Auth0SetupEnvironment {
  const found = parsed(AUTH0_SETUP_VARIABLES, variables);
  return {
    ...served(found),
    domain: found.AUTH0_DOMAIN,
    url: found.url,
    connection: found.AUTH0_CONNECTION,
    clientId: found.AUTH0_CLIENT_ID,
    swaggerUiClientId: found.SWAGGER_UI_CLIENT_ID,
    setupClientId: found.AUTH0_SETUP_CLIENT_ID,
    setupClientSecret: found.AUTH0_SETUP_CLIENT_SECRET,
  };
}

/** As `loadEnvironment`, for the setup of Auth0. */
export const loadAuth0SetupEnvironment = (): Auth0SetupEnvironment => parseAuth0SetupEnvironment(readVariables());

const AUTH0_CHECK_VARIABLES = z.object({ AUTH0_CHECK_DOMAIN: z.string().optional(), AUTH0_DOMAIN: z.string().optional(), OIDC_AUDIENCE }).refine(
  (found) => found.AUTH0_CHECK_DOMAIN !== undefined && found.AUTH0_CHECK_DOMAIN === found.AUTH0_DOMAIN,
  { path: ['AUTH0_CHECK_DOMAIN'], message: 'must be the same as AUTH0_DOMAIN, which says that this tenant is for tests' },
);

/**
 * The tenant for tests that is checked, as the service would be started on it.
 *
 * @throws EnvironmentError
 */
export function loadAuth0CheckEnvironment(): Auth0Environment & { readonly audience: string } {
  const found = parsed(AUTH0_CHECK_VARIABLES.and(AUTH0_VARIABLES), readVariables());
  return { ...found, audience: found.OIDC_AUDIENCE };
}

function parsed<Schema extends z.ZodType>(schema: Schema, variables: Variables): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(onlySet(variables));
  if (!success) throw new EnvironmentError(error.issues.map(toProblem));
  return data;
}

interface ServedVariables {
  readonly HOST: string;
  readonly PORT: number;
  readonly BASE_PATH: string;
  readonly PUBLIC_URL?: string | undefined;
  readonly OIDC_ISSUER?: string | undefined;
  readonly OIDC_AUDIENCE: string;
}

function served(found: ServedVariables): ServedEnvironment {
  assertBasePath(found);
  if (found.PORT === 0 && found.PUBLIC_URL === undefined) throw new EnvironmentError(['PUBLIC_URL: must be set where PORT is 0']);
  const address = { host: found.HOST, basePath: found.BASE_PATH, publicUrl: found.PUBLIC_URL };
  const oidc = { issuer: found.OIDC_ISSUER, audience: found.OIDC_AUDIENCE };
  return { basePath: found.BASE_PATH, publicUrl: found.PUBLIC_URL, baseUrl: baseUrl(address, found.PORT), oidc };
}

function assertBasePath(found: Pick<ServedVariables, 'PUBLIC_URL' | 'BASE_PATH'>): void {
  if (found.PUBLIC_URL !== undefined && !new URL(found.PUBLIC_URL).pathname.endsWith(found.BASE_PATH || '')) {
    throw new EnvironmentError(['PUBLIC_URL: must end with BASE_PATH']);
  }
}

const readVariables = (): Variables => ({ ...readDotEnv(), ...onlySet(process.env) });

function readDotEnv(): Record<string, string | undefined> {
  try {
    return parseEnv(readFileSync('.env', 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new EnvironmentError([`.env: ${(error as Error).message}`]);
  }
}

/** The `{base_url}` that clients see, for the port that the service listens on. */
export const baseUrl = (environment: Pick<Environment, 'host' | 'basePath' | 'publicUrl'>, port: number): string =>
  environment.publicUrl ?? `${origin(environment.host, port)}${environment.basePath}`;

/** The path of `{base_url}`, without a trailing slash: a proxy in front may have one of its own. */
export const publicPath = ({ publicUrl, basePath }: Environment): string =>
  publicUrl === undefined ? basePath : new URL(publicUrl).pathname.replace(/\/$/, '');

/** `http://host:port`, an IPv6 address in brackets. */
export const origin = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
