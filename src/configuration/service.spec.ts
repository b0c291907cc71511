import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseAuth0SetupEnvironment, parseKeycloakSetupEnvironment } from './commands.js';
import { baseUrl, origin } from './served-address.js';
import { type Environment, loadEnvironment, parseEnvironment } from './service.js';
import { EnvironmentError } from './variables.js';

interface Variable {
  readonly read: (environment: Environment) => unknown;
  readonly unset: unknown;
  readonly good: readonly (readonly [text: string, value: unknown])[];
  readonly wrong: readonly string[];
}

const NOT_WHOLE = ['x', '-1', '1.5', '1e3', '0x10', ' 1', '99999999999999999'];
const NO_URL = ['x', 'http:a.example', 'ftp://a.example', 'http://', '//a.example', 'http://u:p@a.example', 'http://a.example/?q', 'http://a.example/#f', 'http://a.example ', 'http://a.example/\n', 'http://a.ex\nample', 'http://a.example/\u0000', 'http://a.example/a b', 'http://a.example\\b'];
const NOT_ONE_LINE = ['a\n', 'a\r\nb', '\u0000'];

const VARIABLES: Readonly<Record<string, Variable>> = {
  NODE_ENV: { read: ({ production }) => production, unset: false, good: [['production', true], ['test', false]], wrong: NOT_ONE_LINE },
  HOST: {
    read: ({ host }) => host,
    unset: '127.0.0.1',
    good: [['0.0.0.0', '0.0.0.0'], ['::1', '::1'], ['a-b.example', 'a-b.example']],
    wrong: ['a b', 'http://a.example', 'a/b'],
  },
  PORT: { read: ({ port }) => port, unset: 3000, good: [['0', 0], ['65535', 65_535]], wrong: [...NOT_WHOLE, '65536'] },
  BASE_PATH: {
    read: ({ basePath }) => basePath,
    unset: '',
    good: [['/a', '/a'], ['/a/b.c~d_e-f', '/a/b.c~d_e-f']],
    wrong: ['a', '/', '/a/', '//a', '/a//b', '/a/../b', '/.', '/a b', '/a?b', '/a*', '/:a'],
  },
  PUBLIC_URL: {
    read: ({ publicUrl }) => publicUrl,
    unset: undefined,
    good: [['https://a.example', 'https://a.example'], ['http://a.example:8080/b/', 'http://a.example:8080/b']],
    wrong: NO_URL,
  },
  TRUST_PROXY: { read: ({ trustProxy }) => trustProxy, unset: 0, good: [['2', 2]], wrong: [...NOT_WHOLE, 'true'] },
  DATA_DIR: { read: ({ dataDirectory }) => dataDirectory, unset: './data', good: [['/a b', '/a b']], wrong: NOT_ONE_LINE },
  FILE_STORAGE: { read: ({ fileStorage }) => fileStorage.adapter, unset: 'local', good: [['local', 'local']], wrong: ['disk', 'LOCAL'] },
  IDENTITY_PROVIDER: {
    read: ({ identityProvider }) => identityProvider.adapter,
    unset: 'embedded',
    good: [['embedded', 'embedded']],
    wrong: ['other', 'Embedded'],
  },
  // The values of EVENTS_WEBHOOK_URL are tested further below, because that variable also needs EVENTS_WEBHOOK_SECRET.
  EVENTS_WEBHOOK_URL: { read: ({ webhook }) => webhook, unset: undefined, good: [], wrong: [] },
  OIDC_ISSUER: {
    read: ({ oidc }) => oidc.issuer,
    unset: undefined,
    // The issuer of a token is compared as text, so the trailing slash of OIDC_ISSUER is kept.
    good: [['https://a.example/', 'https://a.example/']],
    wrong: NO_URL,
  },
  OIDC_AUDIENCE: { read: ({ oidc }) => oidc.audience, unset: 'load-data-api', good: [['my api', 'my api']], wrong: NOT_ONE_LINE },
  EMBEDDED_ADMIN_SECRET: {
    read: ({ embeddedAdminSecret }) => embeddedAdminSecret,
    unset: undefined,
    good: [['s3cr3t!:%s3cr3t!', 's3cr3t!:%s3cr3t!'], ['~'.repeat(500), '~'.repeat(500)], ['the-new-secret-1 the-old-secret-1', 'the-new-secret-1 the-old-secret-1']],
    wrong: ['a', 'fifteen-letters', 'a secret of words', 'the-new-secret-1 too-short', 'pässwort-pässwort'],
  },
  INGESTION_AUTH: {
    read: ({ ingestionAuthorization }) => ingestionAuthorization,
    unset: 'open',
    good: [['open', 'open'], ['required', 'required']],
    wrong: ['yes', 'Required'],
  },
  MAX_UPLOAD_BYTES: {
    read: ({ maxUploadBytes }) => maxUploadBytes,
    unset: 5_368_709_120,
    good: [['1', 1], ['9007199254740991', Number.MAX_SAFE_INTEGER]],
    wrong: [...NOT_WHOLE, '0', '9007199254740992'],
  },
  MAX_JSON_BYTES: { read: ({ maxJsonBytes }) => maxJsonBytes, unset: 10_485_760, good: [['1', 1]], wrong: [...NOT_WHOLE, '0'] },
  CORS_ORIGINS: {
    read: ({ corsOrigins }) => corsOrigins,
    unset: [],
    good: [
      ['https://a.example, http://b.example:8080', ['https://a.example', 'http://b.example:8080']],
      ['*', ['*']],
    ],
    wrong: ['a.example', 'https://a.example/', 'https://a.example,', 'null'],
  },
  SWAGGER_UI_CLIENT_ID: { read: ({ swaggerUiClientId }) => swaggerUiClientId, unset: undefined, good: [['swagger ui', 'swagger ui']], wrong: NOT_ONE_LINE },
  RETENTION_DAYS: { read: ({ retentionDays }) => retentionDays, unset: 0, good: [['30', 30]], wrong: NOT_WHOLE },
  RATE_LIMIT_PER_MINUTE: { read: ({ rateLimitPerMinute }) => rateLimitPerMinute, unset: 0, good: [['60', 60]], wrong: NOT_WHOLE },
  REQUEST_TIMEOUT_MS: { read: ({ requestTimeoutMs }) => requestTimeoutMs, unset: 7_200_000, good: [['1', 1]], wrong: [...NOT_WHOLE, '0'] },
  REQUEST_IDLE_TIMEOUT_MS: {
    read: ({ requestIdleTimeoutMs }) => requestIdleTimeoutMs,
    unset: 60_000,
    good: [['1', 1]],
    // The delay of a timer in Node has at most 31 bits, so it is at most 2147483647 ms.
    wrong: [...NOT_WHOLE, '0', '2147483648'],
  },
  SHUTDOWN_DELAY_MS: {
    read: ({ shutdownDelayMs }) => shutdownDelayMs,
    unset: 0,
    good: [['0', 0], ['2147483647', 2_147_483_647]],
    wrong: [...NOT_WHOLE, '2147483648'],
  },
  SHUTDOWN_TIMEOUT_MS: {
    read: ({ shutdownTimeoutMs }) => shutdownTimeoutMs,
    unset: 10_000,
    good: [['0', 0], ['2147483647', 2_147_483_647]],
    wrong: [...NOT_WHOLE, '2147483648'],
  },
  LOG_LEVEL: {
    read: ({ logLevel }) => logLevel,
    unset: 'info',
    good: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => [level, level] as const),
    wrong: ['loud', 'INFO'],
  },
  LOG_CUSTOMERS: { read: ({ logCustomers }) => logCustomers, unset: false, good: [['true', true], ['false', false]], wrong: ['yes', '1'] },
  LOG_SUBJECTS: { read: ({ logSubjects }) => logSubjects, unset: false, good: [['true', true], ['false', false]], wrong: ['yes', '1'] },
  LOG_SAMPLE: { read: ({ logSample }) => logSample, unset: 1, good: [['1', 1], ['100', 100]], wrong: [...NOT_WHOLE, '0'] },
  // The other variables of OpenTelemetry are tested further below.
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    read: ({ tracing }) => tracing,
    unset: undefined,
    good: [['http://a.example:4318/', { protocol: 'http/protobuf', variables: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a.example:4318/' } }]],
    wrong: NO_URL,
  },
};

const cases = Object.entries(VARIABLES);
const rows = <Key extends 'good' | 'wrong'>(key: Key): [string, Variable[Key][number]][] =>
  cases.flatMap(([name, variable]) => variable[key].map((item): [string, Variable[Key][number]] => [name, item]));

function problemsOf(work: () => unknown): readonly string[] {
  try {
    work();
  } catch (error) {
    if (error instanceof EnvironmentError) return error.problems;
    throw error;
  }
  return [];
}

describe('parseEnvironment', () => {
  it.each(cases)('%s has its default when it is unset or empty', (name, { read, unset }) => {
    expect(read(parseEnvironment({}))).toEqual(unset);
    expect(read(parseEnvironment({ [name]: undefined }))).toEqual(unset);
    expect(read(parseEnvironment({ [name]: '' }))).toEqual(unset);
  });

  it('has a test for each member of its result', () => {
    const { oidc, warnings, ...others } = parseEnvironment({});
    expect(warnings).toEqual([]);
    expect(cases).toHaveLength(Object.keys(others).length + Object.keys(oidc).length);
  });

  it.each(rows('good'))('%s accepts %j', (name, [text, value]) => {
    expect(VARIABLES[name]?.read(parseEnvironment({ [name]: text }))).toEqual(value);
  });

  it.each(rows('wrong'))('%s rejects %j with one line that names it, and shows the value unless it may be a secret', (name, text) => {
    const [problem = '', ...others] = problemsOf(() => parseEnvironment({ [name]: text }));
    expect(others).toEqual([]);
    expect(problem).toMatch(new RegExp(`^${name}: must [^\\n]+$`));
    const isSecret = name === 'EMBEDDED_ADMIN_SECRET' || /[@?#]/.test(text);
    expect(problem.endsWith(`; it is ${JSON.stringify(text)}`)).toBe(!isSecret);
    if (isSecret && text.length > 3) expect(problem).not.toContain(text);
  });

  const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a.example' };
  it.each<[Record<string, string>, string | undefined]>([
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, 'http/protobuf'],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://a.example/v1/traces' }, 'http/protobuf'],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }, 'http/json'],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf' }, 'http/protobuf'],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'false' }, 'http/protobuf'],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' }, undefined],
    [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, undefined],
    [{ OTEL_SERVICE_NAME: 'a', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }, undefined],
    // Without traces, the others may be meant for other programs.
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_SDK_DISABLED: 'true' }, undefined],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc', OTEL_TRACES_EXPORTER: 'none' }, undefined],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317', OTEL_TRACES_EXPORTER: 'none' }, undefined],
    [{ OTEL_TRACES_EXPORTER: 'zipkin', OTEL_SDK_DISABLED: 'true' }, undefined],
  ])('with %j exports traces by %s', (variables, protocol) => {
    const { tracing, warnings } = parseEnvironment({ PORT: '0', ...variables });
    expect(tracing).toEqual(protocol && { protocol, variables });
    expect(warnings).toEqual([]);
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', '"http/protobuf" or "http/json"'],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'grpc', '"http/protobuf" or "http/json"'],
    ['OTEL_TRACES_EXPORTER', 'zipkin', '"otlp" or "none"'],
  ])('rejects %s=%s', (name, value, allowed) => {
    expect(problemsOf(() => parseEnvironment({ ...ENDPOINT, [name]: value }))).toEqual([`${name}: must be ${allowed}; it is "${value}"`]);
  });

  it('cuts a long value', () => {
    const [problem = ''] = problemsOf(() => parseEnvironment({ PORT: 'x'.repeat(1_000) }));
    expect(problem).toMatch(/"x{80}…"$/);
  });

  const HOOK = 'https://hooks.example/a?key=b';
  const secret = (bytes: number, fill = 0): string => `whsec_${Buffer.alloc(bytes, fill).toString('base64')}`;

  it.each<[string, string, Buffer[]]>([
    [HOOK, secret(24), [Buffer.alloc(24)]],
    ['http://u:p@127.0.0.1:1', secret(64, 0xff), [Buffer.alloc(64, 0xff)]],
    ['HTTPS://hooks.example', `${secret(25)} ${secret(26)}`, [Buffer.alloc(25), Buffer.alloc(26)]],
  ])('accepts the webhook %s', (url, text, secrets) => {
    const { webhook, warnings } = parseEnvironment({ EVENTS_WEBHOOK_URL: url, EVENTS_WEBHOOK_SECRET: text });
    expect(webhook).toEqual({ url, secrets });
    expect(warnings).toEqual([]);
  });

  it.each<[string, string | undefined, string | undefined, string[]]>([
    ['a URL without a secret', HOOK, undefined, ['EVENTS_WEBHOOK_SECRET: must be set where EVENTS_WEBHOOK_URL is']],
    ...['x', 'ftp://a.example', 'http://', 'https://a.example/#f', 'https://user:p%ss@a.example/'].map((url): [string, string, string, string[]] => [`the URL ${url}`, url, secret(24), ['EVENTS_WEBHOOK_URL: must be an http or https URL without fragment, with % as %25 in its user and password']]),
    ...['secret', secret(23), secret(65), secret(24).slice(6), secret(25).slice(0, -1), `${secret(24)} x`, `${secret(24)},${secret(24)}`, [1, 2, 3].map((fill) => secret(24, fill)).join(' ')].map((text): [string, string, string, string[]] => [
      `the secret ${text}`,
      HOOK,
      text,
      ['EVENTS_WEBHOOK_SECRET: must be whsec_ and the base64 of 24 to 64 bytes, or two such secrets separated by a blank'],
    ]),
    ['a wrong secret and a wrong URL', 'x', 'y', ['EVENTS_WEBHOOK_URL: must be an http or https URL without fragment, with % as %25 in its user and password', 'EVENTS_WEBHOOK_SECRET: must be whsec_ and the base64 of 24 to 64 bytes, or two such secrets separated by a blank']],
  ])('rejects %s, and shows neither', (_, url, text, problems) => {
    expect(problemsOf(() => parseEnvironment({ EVENTS_WEBHOOK_URL: url, EVENTS_WEBHOOK_SECRET: text }))).toEqual(problems);
  });

  it('warns of a secret without a URL', () => {
    expect(parseEnvironment({ EVENTS_WEBHOOK_SECRET: secret(24) }).warnings).toEqual(['EVENTS_WEBHOOK_SECRET: without effect, because EVENTS_WEBHOOK_URL is not set']);
  });

  const S3 = { FILE_STORAGE: 's3', S3_BUCKET: 'load-data' };
  const AZURE = { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'load-data', AZURE_STORAGE_ACCOUNT_URL: 'https://a.example' };
  const S3_STORAGE = { adapter: 's3', bucket: 'load-data', prefix: '', region: undefined, endpoint: undefined, forcePathStyle: false, timeoutMs: 30_000 };
  const AZURE_STORAGE = { adapter: 'azure', container: 'load-data', account: { url: 'https://a.example' }, timeoutMs: 30_000 };
  const KEYCLOAK = {
    IDENTITY_PROVIDER: 'keycloak',
    KEYCLOAK_URL: 'https://id.example/auth',
    KEYCLOAK_REALM: 'my-realm',
    KEYCLOAK_CLIENT_ID: 'the service',
    KEYCLOAK_CLIENT_SECRET: 's3cr3t!:% ä',
  };
  const KEYCLOAK_PROVIDER = {
    adapter: 'keycloak',
    url: 'https://id.example/auth',
    realm: 'my-realm',
    clientId: 'the service',
    clientSecret: 's3cr3t!:% ä',
    invitationMail: false,
  };
  const AUTH0 = {
    IDENTITY_PROVIDER: 'auth0',
    AUTH0_DOMAIN: 'tenant.eu.auth0.com',
    AUTH0_CLIENT_ID: 'the service',
    AUTH0_CLIENT_SECRET: 's3cr3t!:% ä',
    OIDC_AUDIENCE: 'https://api.example/',
  };
  const AUTH0_PROVIDER = {
    adapter: 'auth0',
    url: 'https://tenant.eu.auth0.com',
    clientId: 'the service',
    clientSecret: 's3cr3t!:% ä',
    connection: 'Username-Password-Authentication',
    invitationMail: false,
  };
  const CONNECTION = 'DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a2V5';

  it.each<[string, Record<string, string>, object]>([
    ['s3 with only a bucket', S3, S3_STORAGE],
    ['S3_PREFIX', { ...S3, S3_PREFIX: 'a/b=c' }, { ...S3_STORAGE, prefix: 'a/b=c/' }],
    ...['.a', '..a', 'a.', 'a..', '...', 'a/.b', 'a../b'].map((prefix): [string, Record<string, string>, object] => [
      `S3_PREFIX ${prefix}`, { ...S3, S3_PREFIX: prefix }, { ...S3_STORAGE, prefix: `${prefix}/` },
    ]),
    ['S3_PREFIX with a trailing slash', { ...S3, S3_PREFIX: 'a/' }, { ...S3_STORAGE, prefix: 'a/' }],
    ['S3_REGION', { ...S3, S3_REGION: 'eu-central-1' }, { ...S3_STORAGE, region: 'eu-central-1' }],
    ['S3_ENDPOINT', { ...S3, S3_ENDPOINT: 'http://127.0.0.1:7070' }, { ...S3_STORAGE, endpoint: 'http://127.0.0.1:7070' }],
    ['S3_FORCE_PATH_STYLE', { ...S3, S3_FORCE_PATH_STYLE: 'true' }, { ...S3_STORAGE, forcePathStyle: true }],
    ['STORAGE_TIMEOUT_MS', { ...S3, STORAGE_TIMEOUT_MS: '2000' }, { ...S3_STORAGE, timeoutMs: 2000 }],
    ['azure with an account', AZURE, AZURE_STORAGE],
    [
      'azure with a connection string',
      { ...AZURE, AZURE_STORAGE_ACCOUNT_URL: '', AZURE_STORAGE_CONNECTION_STRING: CONNECTION },
      { ...AZURE_STORAGE, account: { connectionString: CONNECTION } },
    ],
    ...['S3_PREFIX', 'S3_REGION', 'S3_ENDPOINT', 'S3_FORCE_PATH_STYLE', 'STORAGE_TIMEOUT_MS'].map((name): [string, Record<string, string>, object] => [
      `s3 with ${name} empty`, { ...S3, [name]: '' }, S3_STORAGE,
    ]),
    ['azure with STORAGE_TIMEOUT_MS empty', { ...AZURE, STORAGE_TIMEOUT_MS: '' }, AZURE_STORAGE],
    ['local with invalid variables of other adapters', { S3_PREFIX: '/', STORAGE_TIMEOUT_MS: 'x', AZURE_STORAGE_ACCOUNT_URL: 'x' }, { adapter: 'local' }],
  ])('accepts %s', (_, variables, expected) => {
    expect(parseEnvironment(variables).fileStorage).toEqual(expected);
  });

  it.each<[string, Record<string, string>, object]>([
    ['keycloak', KEYCLOAK, KEYCLOAK_PROVIDER],
    ['KEYCLOAK_URL with a trailing slash', { ...KEYCLOAK, KEYCLOAK_URL: 'https://id.example/auth/' }, KEYCLOAK_PROVIDER],
    ...['Lastgänge Nord', '.hidden', "a'b%~|", '😀'].map((realm): [string, Record<string, string>, object] => [
      `the realm ${realm}`,
      { ...KEYCLOAK, KEYCLOAK_REALM: realm },
      { ...KEYCLOAK_PROVIDER, realm },
    ]),
    ['KEYCLOAK_INVITATION_MAIL', { ...KEYCLOAK, KEYCLOAK_INVITATION_MAIL: 'true' }, { ...KEYCLOAK_PROVIDER, invitationMail: true }],
    ['auth0', AUTH0, AUTH0_PROVIDER],
    ['AUTH0_CONNECTION', { ...AUTH0, AUTH0_CONNECTION: 'people' }, { ...AUTH0_PROVIDER, connection: 'people' }],
    ['AUTH0_INVITATION_MAIL', { ...AUTH0, AUTH0_INVITATION_MAIL: 'true' }, { ...AUTH0_PROVIDER, invitationMail: true }],
    ['AUTH0_DOMAIN of a stand-in', { ...AUTH0, AUTH0_DOMAIN: 'http://127.0.0.1:8080' }, { ...AUTH0_PROVIDER, url: 'http://127.0.0.1:8080' }],
    ['AUTH0_DOMAIN in capital letters and with the usual port', { ...AUTH0, AUTH0_DOMAIN: 'Tenant.EU.Auth0.com:443' }, AUTH0_PROVIDER],
    ['KEYCLOAK_INVITATION_MAIL empty', { ...KEYCLOAK, KEYCLOAK_INVITATION_MAIL: '' }, KEYCLOAK_PROVIDER],
    ['AUTH0_CONNECTION empty', { ...AUTH0, AUTH0_CONNECTION: '' }, AUTH0_PROVIDER],
    ['AUTH0_INVITATION_MAIL empty', { ...AUTH0, AUTH0_INVITATION_MAIL: '' }, AUTH0_PROVIDER],
    ['embedded with invalid variables of other adapters', { KEYCLOAK_URL: 'x', KEYCLOAK_REALM: '/', AUTH0_DOMAIN: '/' }, { adapter: 'embedded' }],
  ])('accepts %s', (_, variables, expected) => {
    expect(parseEnvironment(variables).identityProvider).toEqual(expected);
  });

  it.each<[string, Record<string, string>]>([
    ['S3_BUCKET', { FILE_STORAGE: 's3' }],
    ['S3_PREFIX', { ...S3, S3_PREFIX: '/a' }],
    ['S3_PREFIX', { ...S3, S3_PREFIX: 'a//b' }],
    ['S3_PREFIX', { ...S3, S3_PREFIX: 'a b' }],
    ...['.', '..', './', 'a/.', 'a/..', './a', '../a', 'a/../b', 'a/./b', ' ', ' a', 'a ', 'a\tb', 'a\u0000', '/', 'a//', 'a\\b', 'ä', '%2E', '?a', '#'].map(
      (prefix): [string, Record<string, string>] => ['S3_PREFIX', { ...S3, S3_PREFIX: prefix }],
    ),
    ['S3_REGION', { ...S3, S3_REGION: 'eu central' }],
    ['S3_ENDPOINT', { ...S3, S3_ENDPOINT: '127.0.0.1:7070' }],
    ['S3_FORCE_PATH_STYLE', { ...S3, S3_FORCE_PATH_STYLE: 'yes' }],
    ['STORAGE_TIMEOUT_MS', { ...S3, STORAGE_TIMEOUT_MS: '0' }],
    ['STORAGE_TIMEOUT_MS', { ...AZURE, STORAGE_TIMEOUT_MS: '2147483648' }],
    ['AZURE_STORAGE_CONTAINER', { ...AZURE, AZURE_STORAGE_CONTAINER: '' }],
    ['AZURE_STORAGE_CONNECTION_STRING', { ...AZURE, AZURE_STORAGE_ACCOUNT_URL: '' }],
    ['AZURE_STORAGE_CONNECTION_STRING', { ...AZURE, AZURE_STORAGE_CONNECTION_STRING: CONNECTION }],
    ['AZURE_STORAGE_ACCOUNT_URL', { ...AZURE, AZURE_STORAGE_ACCOUNT_URL: 'a.example' }],
    ...['KEYCLOAK_URL', 'KEYCLOAK_REALM', 'KEYCLOAK_CLIENT_ID', 'KEYCLOAK_CLIENT_SECRET'].map(
      (name): [string, Record<string, string>] => [name, { ...KEYCLOAK, [name]: '' }],
    ),
    ...['id.example', 'ftp://id.example', 'https://id.example?a', 'https://id.example ', 'https://id.example\n'].map(
      (url): [string, Record<string, string>] => ['KEYCLOAK_URL', { ...KEYCLOAK, KEYCLOAK_URL: url }],
    ),
    ...['AUTH0_DOMAIN', 'AUTH0_CLIENT_ID', 'AUTH0_CLIENT_SECRET', 'OIDC_AUDIENCE'].map(
      (name): [string, Record<string, string>] => [name, { ...AUTH0, [name]: '' }],
    ),
    ...['https://tenant.eu.auth0.com', 'tenant.eu.auth0.com/', 'http://u:p@a.example', 'http://a.example/b', 'a b', '.a.example', '-', 'a.example:99999', '1.2.3.4.5', 'a.example\n'].map(
      (domain): [string, Record<string, string>] => ['AUTH0_DOMAIN', { ...AUTH0, AUTH0_DOMAIN: domain }],
    ),
    ['S3_BUCKET', { ...S3, S3_BUCKET: 'a\n' }],
    ['AZURE_STORAGE_CONTAINER', { ...AZURE, AZURE_STORAGE_CONTAINER: 'a\n' }],
    ['AZURE_STORAGE_CONNECTION_STRING', { ...AZURE, AZURE_STORAGE_ACCOUNT_URL: '', AZURE_STORAGE_CONNECTION_STRING: `${CONNECTION}\n` }],
    ...['KEYCLOAK_REALM', 'KEYCLOAK_CLIENT_ID', 'KEYCLOAK_CLIENT_SECRET'].map((name): [string, Record<string, string>] => [name, { ...KEYCLOAK, [name]: 'a\n' }]),
    ...['AUTH0_CLIENT_ID', 'AUTH0_CLIENT_SECRET', 'AUTH0_CONNECTION', 'OIDC_AUDIENCE'].map((name): [string, Record<string, string>] => [name, { ...AUTH0, [name]: 'a\n' }]),
    ['AUTH0_DOMAIN', { ...AUTH0, AUTH0_DOMAIN: 'http://127.0.0.1:8080', NODE_ENV: 'production' }],
    ...['.', '..', 'a/b', 'a\\b', 'a?b', 'a#b', 'a;b', 'a\tb', '\ud800'].map((realm): [string, Record<string, string>] => ['KEYCLOAK_REALM', { ...KEYCLOAK, KEYCLOAK_REALM: realm }]),
    ['KEYCLOAK_INVITATION_MAIL', { ...KEYCLOAK, KEYCLOAK_INVITATION_MAIL: 'yes' }],
    ['AUTH0_INVITATION_MAIL', { ...AUTH0, AUTH0_INVITATION_MAIL: 'yes' }],
  ])('reports an invalid %s of the chosen adapter together with other problems', (name, variables) => {
    const problems = problemsOf(() => parseEnvironment({ ...variables, PORT: 'x' }));
    expect(problems).toEqual([expect.stringMatching(/^PORT: must /), expect.stringMatching(new RegExp(`^${name}: must [^\\n]+$`))]);
  });

  it('reports all problems at once, also in the message', () => {
    const parse = (): unknown => parseEnvironment({ PORT: 'x', LOG_LEVEL: 'x', HOST: 'a b' });
    expect(problemsOf(parse).map((problem) => problem.split(':')[0]).sort()).toEqual(['HOST', 'LOG_LEVEL', 'PORT']);
    expect(parse).toThrow(problemsOf(parse).join('\n'));
  });

  it.each([
    ['http://a.example/b', '/b', []],
    ['http://a.example/proxied/b/', '/b', []],
    ['http://a.example/b', undefined, []],
    ['http://a.example', '/b', ['PUBLIC_URL: must end with BASE_PATH']],
    ['http://a.example/b/c', '/b', ['PUBLIC_URL: must end with BASE_PATH']],
  ])('checks PUBLIC_URL %s against BASE_PATH %s', (PUBLIC_URL, BASE_PATH, problems) => {
    expect(problemsOf(() => parseEnvironment({ PUBLIC_URL, BASE_PATH }))).toEqual(problems);
  });

  it.each<[string, Record<string, string>, string[]]>([
    ['embedded', { KEYCLOAK_URL: 'x', AUTH0_DOMAIN: '/' }, ['KEYCLOAK_URL, AUTH0_DOMAIN: without effect, because IDENTITY_PROVIDER is "embedded"']],
    ['keycloak', { ...KEYCLOAK, AUTH0_CLIENT_SECRET: 'x' }, ['AUTH0_CLIENT_SECRET: without effect, because IDENTITY_PROVIDER is "keycloak"']],
    ['auth0', { ...AUTH0, KEYCLOAK_REALM: 'x', KEYCLOAK_CLIENT_ID: '' }, ['KEYCLOAK_REALM: without effect, because IDENTITY_PROVIDER is "auth0"']],
    // Kubernetes sets KEYCLOAK_SERVICE_HOST and KEYCLOAK_PORT when one of its services is called `keycloak`. Only the
    // set-up commands read AUTH0_SETUP_CLIENT_ID and KEYCLOAK_ADMIN_USERNAME.
    ['embedded', { KEYCLOAK_SERVICE_HOST: '10.0.0.1', KEYCLOAK_PORT: 'tcp://10.0.0.1:80', AUTH0_SETUP_CLIENT_ID: 'x', KEYCLOAK_ADMIN_USERNAME: 'x' }, []],
  ])('with %s warns about variables of other identity providers: %j', (_, variables, warnings) => {
    expect(parseEnvironment(variables).warnings).toEqual(warnings);
  });

  it.each<[string, Record<string, string>, string[]]>([
    ['local', { S3_BUCKET: 'x', S3_REGION: 'x' }, ['S3_BUCKET, S3_REGION: without effect, because FILE_STORAGE is "local"']],
    ['s3', { FILE_STORAGE: 's3', S3_BUCKET: 'x', AZURE_STORAGE_CONTAINER: 'x' }, ['AZURE_STORAGE_CONTAINER: without effect, because FILE_STORAGE is "s3"']],
    // Other programs read these, which the service never does by itself.
    ['local', { AWS_ACCESS_KEY_ID: 'x', AZURE_CLIENT_ID: 'x', STORAGE_TIMEOUT_MS: '1' }, []],
  ])('with %s warns about variables of other stores: %j', (_, variables, warnings) => {
    expect(parseEnvironment(variables).warnings).toEqual(warnings);
  });

  it.each([
    ['https://login.grid.example/', []],
    ['https://login.grid.example', ['OIDC_ISSUER: the issuers of Auth0 are in lower case and end with "/"; with another issuer, all tokens are refused']],
    ['https://Login.grid.example/', ['OIDC_ISSUER: the issuers of Auth0 are in lower case and end with "/"; with another issuer, all tokens are refused']],
  ])('with auth0 and OIDC_ISSUER %s warns: %j', (OIDC_ISSUER, warnings) => {
    expect(parseEnvironment({ ...AUTH0, IDENTITY_PROVIDER: 'auth0', OIDC_ISSUER }).warnings).toEqual(warnings);
  });

  it('ignores unknown variables', () => {
    expect(parseEnvironment({ PATH: '/bin', LOAD_DATA: 'x' })).toEqual(parseEnvironment({}));
  });
});

describe('baseUrl', () => {
  it.each([
    [{}, 'http://127.0.0.1:80'],
    [{ HOST: '::1', BASE_PATH: '/a' }, 'http://[::1]:80/a'],
    [{ PUBLIC_URL: 'https://a.example/b/' }, 'https://a.example/b'],
  ])('returns, for %j, %s', (variables, url) => {
    expect(baseUrl(parseEnvironment(variables), 80)).toBe(url);
  });

  it('starts with the origin', () => {
    expect(origin('a.example', 1)).toBe('http://a.example:1');
  });
});

describe('loadEnvironment', () => {
  const before = process.cwd();
  let directory: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'environment-'));
    process.chdir(directory);
    for (const name of Object.keys(VARIABLES)) vi.stubEnv(name, undefined);
  });
  afterEach(() => {
    process.chdir(before);
    vi.unstubAllEnvs();
    rmSync(directory, { recursive: true });
  });

  it('reads the environment of the process, and needs no .env', () => {
    expect(loadEnvironment()).toEqual(parseEnvironment({}));
    vi.stubEnv('PORT', '4000');
    expect(loadEnvironment().port).toBe(4000);
  });

  it('reads variables that are unset or empty from .env, where empty also means unset', () => {
    writeFileSync('.env', 'PORT=4001\nLOG_LEVEL="debug" # for now\nDATA_DIR=/from/file\nBASE_PATH=\n');
    vi.stubEnv('PORT', '4000');
    vi.stubEnv('LOG_LEVEL', '');
    expect(loadEnvironment()).toMatchObject({ port: 4000, logLevel: 'debug', dataDirectory: '/from/file', basePath: '' });
  });

  it('rejects an invalid value in .env and names the variable', () => {
    writeFileSync('.env', 'EMBEDDED_ADMIN_SECRET="top secret"\n');
    expect(problemsOf(loadEnvironment)).toEqual(['EMBEDDED_ADMIN_SECRET: must be at least 16 visible ASCII characters, or two such secrets separated by a blank']);
  });

  it.each([
    ['before another', 'LOG_LEVEL=debug\nEMBEDDED_ADMIN_SECRET a-secret-of-a-file\nPORT=4001\n', 2],
    ['at the end', 'LOG_LEVEL=debug\nEMBEDDED_ADMIN_SECRET a-secret-of-a-file', 2],
    ['with = in its value', 'EMBEDDED_ADMIN_SECRET a-secret=of-a-file\n', 1],
    ['after a quoted value', 'LOG_LEVEL="debug"\nEMBEDDED_ADMIN_SECRET\nPORT="4001"\n', 2],
    ['after a quoted value of several lines', '# a note\r\nNOTE="one\r\ntwo\r\n\r\nfour"\r\na-secret-of-a-file\r\n', 6],
    ['that is only a secret', 'EMBEDDED_ADMIN_SECRET=\na-secret-of-a-file\n', 2],
  ])('reports a line without NAME= in .env, %s, and shows nothing of it', (_place, text, line) => {
    writeFileSync('.env', text);
    expect(problemsOf(loadEnvironment)).toEqual([expect.stringMatching(new RegExp(`/\\.env: line ${line} must have the form NAME=value$`))]);
  });

  it('reads comments, export, blanks around =, and quoted values of several lines in .env', () => {
    writeFileSync('.env', '# PORT 1\n\nexport PORT=4001\nLOG_LEVEL = debug # not "info\nBASE_PATH="/a"\nNOTE="first\nsecond = line\nthird line"\nDATA_DIR=/from/file\n');
    expect(loadEnvironment()).toMatchObject({ port: 4001, logLevel: 'debug', basePath: '/a', dataDirectory: '/from/file' });
  });

  it('reports that .env cannot be read', () => {
    mkdirSync('.env');
    expect(problemsOf(loadEnvironment)).toEqual([expect.stringMatching(/\/\.env: EISDIR[^\n]*$/)]);
  });
});

describe('a secret in a file', () => {
  const SECRET = 'a-secret-of-a-file';
  const KEYCLOAK = { IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_URL: 'https://id.example', KEYCLOAK_REALM: 'r', KEYCLOAK_CLIENT_ID: 'c' };
  const AUTH0 = { IDENTITY_PROVIDER: 'auth0', AUTH0_DOMAIN: 'a.example', AUTH0_CLIENT_ID: 'c', OIDC_AUDIENCE: 'a' };
  let directory: string;
  let path: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'secret-files-'));
    path = join(directory, 'secret');
  });
  afterEach(() => { rmSync(directory, { recursive: true }); });

  it.each<[string, Record<string, string>, (environment: Environment) => unknown]>([
    ['EMBEDDED_ADMIN_SECRET', {}, ({ embeddedAdminSecret }) => embeddedAdminSecret],
    ['KEYCLOAK_CLIENT_SECRET', KEYCLOAK, ({ identityProvider }) => identityProvider.adapter === 'keycloak' && identityProvider.clientSecret],
    ['AUTH0_CLIENT_SECRET', AUTH0, ({ identityProvider }) => identityProvider.adapter === 'auth0' && identityProvider.clientSecret],
    ['AZURE_STORAGE_CONNECTION_STRING', { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'c' }, ({ fileStorage }) => fileStorage.adapter === 'azure' && 'connectionString' in fileStorage.account && fileStorage.account.connectionString],
  ])('is the value of %s', (name, others, read) => {
    writeFileSync(path, `${SECRET}\n`);
    const environment = parseEnvironment({ ...others, [`${name}_FILE`]: path });
    expect(read(environment)).toBe(SECRET);
    expect(environment.warnings).toEqual([]);
  });

  it('can be the URL and the secret of the webhook', () => {
    const secret = `whsec_${Buffer.alloc(32).toString('base64')}`;
    writeFileSync(path, secret);
    writeFileSync(join(directory, 'url'), 'https://a.example/key\r\n');
    const environment = parseEnvironment({ EVENTS_WEBHOOK_SECRET_FILE: path, EVENTS_WEBHOOK_URL_FILE: join(directory, 'url') });
    expect(environment.webhook).toEqual(parseEnvironment({ EVENTS_WEBHOOK_SECRET: secret, EVENTS_WEBHOOK_URL: 'https://a.example/key' }).webhook);
  });

  it.each<[string, Record<string, string>, object | undefined]>([
    ['the key', { AWS_ACCESS_KEY_ID: 'id' }, { accessKeyId: 'id', secretAccessKey: SECRET }],
    ['the key, with a session token', { AWS_ACCESS_KEY_ID: 'id', AWS_SESSION_TOKEN: 'token' }, { accessKeyId: 'id', secretAccessKey: SECRET, sessionToken: 'token' }],
    ["the key, unless there is a profile, which AWS's SDK prefers", { AWS_ACCESS_KEY_ID: 'id', AWS_PROFILE: 'other' }, undefined],
  ])('can be %s of S3', (_what, others, credentials) => {
    writeFileSync(path, SECRET);
    const environment = parseEnvironment({ FILE_STORAGE: 's3', S3_BUCKET: 'b', AWS_SECRET_ACCESS_KEY_FILE: path, ...others });
    expect(environment.fileStorage).toHaveProperty('bucket', 'b');
    expect('credentials' in environment.fileStorage ? environment.fileStorage.credentials : undefined).toEqual(credentials);
    expect('profile' in environment.fileStorage ? environment.fileStorage.profile : undefined).toBe(others.AWS_PROFILE);
    expect(environment.warnings).toEqual([]);
  });

  it('cannot be half of the key of S3', () => {
    writeFileSync(path, SECRET);
    expect(() => parseEnvironment({ FILE_STORAGE: 's3', S3_BUCKET: 'b', AWS_SECRET_ACCESS_KEY_FILE: path })).toThrow('AWS_ACCESS_KEY_ID: must be set, because the other half of the key is');
    expect(() => parseEnvironment({ FILE_STORAGE: 's3', S3_BUCKET: 'b', AWS_ACCESS_KEY_ID: 'id' })).toThrow('AWS_SECRET_ACCESS_KEY: must be set, because the other half of the key is');
  });

  it.each(['AWS_ACCESS_KEY_ID', 'AWS_SESSION_TOKEN'])('can also be the %s of S3', (name) => {
    writeFileSync(path, SECRET);
    const variables = { FILE_STORAGE: 's3', S3_BUCKET: 'b', AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 's', AWS_SESSION_TOKEN: 't' };
    expect(parseEnvironment({ ...variables, [name]: '', [`${name}_FILE`]: path }).fileStorage).toEqual(parseEnvironment({ ...variables, [name]: SECRET }).fileStorage);
  });

  it("can be the secrets of Keycloak's set-up", () => {
    writeFileSync(path, SECRET);
    const variables = { ...KEYCLOAK, KEYCLOAK_ADMIN_USERNAME: 'admin', KEYCLOAK_ADMIN_PASSWORD_FILE: path };
    expect(parseKeycloakSetupEnvironment(variables)).toEqual(parseKeycloakSetupEnvironment({ ...KEYCLOAK, KEYCLOAK_ADMIN_USERNAME: 'admin', KEYCLOAK_ADMIN_PASSWORD: SECRET }));
  });

  it("can be the secret of Auth0's set-up", () => {
    writeFileSync(path, SECRET);
    const variables = { AUTH0_DOMAIN: 'a.example', AUTH0_SETUP_CLIENT_ID: 'c', OIDC_AUDIENCE: 'a' };
    expect(parseAuth0SetupEnvironment({ ...variables, AUTH0_SETUP_CLIENT_SECRET_FILE: path }).setupClientSecret).toBe(SECRET);
  });

  it.each(['KEYCLOAK_ADMIN_PASSWORD_FILE', 'AUTH0_SETUP_CLIENT_SECRET_FILE'])('is not read by the service if only a set-up needs it: %s', (name) => {
    expect(parseEnvironment({ [name]: path })).toEqual(parseEnvironment({}));
  });

  it.each<[string, string | Buffer, RegExp]>([
    ['is empty', '', /must contain one line/],
    ['has only a line break', '\n', /must contain one line/],
    ['has two lines', `${SECRET}\n${SECRET}\n`, /must contain one line/],
    ['is too long', Buffer.alloc(70_000, 'x'), /regular file of at most 65536 bytes/],
  ])('is refused if it %s, without its text', (_what, text, problem) => {
    writeFileSync(path, text);
    const problems = problemsOf(() => parseEnvironment({ EMBEDDED_ADMIN_SECRET_FILE: path }));
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).toMatch(/^EMBEDDED_ADMIN_SECRET_FILE: /);
    expect(problems.join()).not.toContain(SECRET);
  });

  it('is refused if it is missing or a directory, and each problem has its line', () => {
    const variables = { ...KEYCLOAK, EMBEDDED_ADMIN_SECRET_FILE: path, KEYCLOAK_CLIENT_SECRET_FILE: directory, PORT: 'x' };
    expect(problemsOf(() => parseEnvironment(variables))).toEqual([
      "EMBEDDED_ADMIN_SECRET_FILE: the file can't be read (ENOENT)",
      expect.stringMatching(/^KEYCLOAK_CLIENT_SECRET_FILE: .*regular file/),
      expect.stringMatching(/^PORT: /),
    ]);
  });

  it.each<[string, string, Record<string, string>, Record<string, string>, boolean]>([
    ['KEYCLOAK_CLIENT_SECRET_FILE', 'with another identity provider', {}, KEYCLOAK, true],
    ['AUTH0_CLIENT_SECRET_FILE', 'with another identity provider', { ...KEYCLOAK, KEYCLOAK_CLIENT_SECRET: SECRET }, AUTH0, true],
    ['AZURE_STORAGE_CONNECTION_STRING_FILE', 'with another store', { FILE_STORAGE: 's3', S3_BUCKET: 'b' }, { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'c' }, true],
    ['AWS_SECRET_ACCESS_KEY_FILE', 'with another store', {}, { FILE_STORAGE: 's3', S3_BUCKET: 'b', AWS_ACCESS_KEY_ID: 'id' }, false],
    ['OTEL_EXPORTER_OTLP_HEADERS_FILE', 'without traces', { OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'otlp' }, false],
  ])('is not read where it has no use: %s %s', (name, _, without, withUse, isWarnedOf) => {
    expect(parseEnvironment({ ...without, [name]: path })).toEqual({ ...parseEnvironment(without), warnings: isWarnedOf ? [expect.stringMatching(new RegExp(`^${name}: without effect`))] : [] });
    expect(problemsOf(() => parseEnvironment({ ...withUse, [name]: path }))).toEqual([`${name}: the file can't be read (ENOENT)`]);
    const module = { IDENTITY_PROVIDER: 'module:./provider.js', [name]: path };
    expect(problemsOf(() => parseEnvironment(module))).toEqual([`${name}: the file can't be read (ENOENT)`]);
  });

  it.each([SECRET, `${SECRET}\n${SECRET}`, `${SECRET}\0`])('is not repeated if it is set in place of the path of its file', (secret) => {
    const [problem, ...others] = problemsOf(() => parseEnvironment({ EMBEDDED_ADMIN_SECRET_FILE: secret }));
    expect(problem).toMatch(/^EMBEDDED_ADMIN_SECRET_FILE: the file can't be read \([A-Z_]+\)$/);
    expect(others).toEqual([]);
  });

  it('is refused beside the secret itself', () => {
    writeFileSync(path, SECRET);
    const variables = { EMBEDDED_ADMIN_SECRET: SECRET, EMBEDDED_ADMIN_SECRET_FILE: path };
    expect(problemsOf(() => parseEnvironment(variables))).toEqual(['EMBEDDED_ADMIN_SECRET_FILE: must not be set together with EMBEDDED_ADMIN_SECRET']);
  });

  it('is checked like the secret itself', () => {
    writeFileSync(path, 'short');
    expect(problemsOf(() => parseEnvironment({ EMBEDDED_ADMIN_SECRET_FILE: path }))).toEqual(['EMBEDDED_ADMIN_SECRET: must be at least 16 visible ASCII characters, or two such secrets separated by a blank']);
  });
});

describe('parseKeycloakSetupEnvironment', () => {
  const REALM = { KEYCLOAK_URL: 'https://id.example/auth/', KEYCLOAK_REALM: 'my-realm' };

  it('has defaults for everything except the URL and the realm', () => {
    expect(parseKeycloakSetupEnvironment(REALM)).toEqual({
      url: 'https://id.example/auth',
      realm: 'my-realm',
      clientId: 'load-data-service',
      oidc: { issuer: undefined, audience: 'load-data-api' },
      basePath: '',
      publicUrl: undefined,
      baseUrl: 'http://127.0.0.1:3000',
      username: undefined,
      password: undefined,
    });
  });

  it.each<[Record<string, string>, string]>([
    [{ PORT: '8080', BASE_PATH: '/load' }, 'http://127.0.0.1:8080/load'],
    [{ HOST: '::1' }, 'http://[::1]:3000'],
    [{ PUBLIC_URL: 'https://a.example/load/', BASE_PATH: '/load', PORT: '0' }, 'https://a.example/load'],
  ])('with %j returns the base URL %s', (variables, url) => {
    expect(parseKeycloakSetupEnvironment({ ...REALM, ...variables }).baseUrl).toBe(url);
  });

  it.each([
    ['KEYCLOAK_URL', { KEYCLOAK_URL: '' }],
    ['KEYCLOAK_URL', { KEYCLOAK_URL: 'https://admin:secret@id.example' }],
    ['KEYCLOAK_REALM', { KEYCLOAK_REALM: 'a/b' }],
    ['KEYCLOAK_REALM', { KEYCLOAK_REALM: 'master' }],
    ['KEYCLOAK_ADMIN_PASSWORD', { KEYCLOAK_ADMIN_PASSWORD: 'a\n' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'x' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'https://a.example', BASE_PATH: '/load' }],
    ['PUBLIC_URL', { PORT: '0' }],
  ])('rejects an invalid %s in one line: %j', (name, variables) => {
    expect(problemsOf(() => parseKeycloakSetupEnvironment({ ...REALM, ...variables }))).toEqual([
      expect.stringMatching(new RegExp(`^${name}: must [^\\n]+$`)),
    ]);
  });
});
