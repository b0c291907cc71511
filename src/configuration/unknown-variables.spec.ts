import { describe, expect, it } from 'vitest';
import { parseEnvironment } from './service.js';

const warningsOf = (...names: string[]): readonly string[] =>
  parseEnvironment(Object.fromEntries(names.map((name) => [name, 's3cret']))).warnings;

describe('unknown variables', () => {
  it.each([
    ['RATE_LIMIT_PER_MINUT', 'RATE_LIMIT_PER_MINUTE'],
    ['RATE_LIMIT_PER_MINTUE', 'RATE_LIMIT_PER_MINUTE'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['DATADIR', 'DATA_DIR'],
    ['MAX_UPLOAD_BYTE', 'MAX_UPLOAD_BYTES'],
    ['S3_BUCKET_NAME', 'S3_BUCKET'],
    ['KEYCLOAK_CLIENTSECRET', 'KEYCLOAK_CLIENT_SECRET'],
    ['INGESTION_AUTHORIZATION', 'INGESTION_AUTH'],
  ])('%s causes a warning with the nearest name, and without the value', (name, nearest) => {
    expect(warningsOf(name)).toEqual([`${name}: unknown variable, without effect: did you mean ${nearest}?`]);
  });

  it('a name of an own family that is near no known one causes a warning without a name', () => {
    expect(warningsOf('S3_X')).toEqual(['S3_X: unknown variable, without effect']);
  });

  it.each(['HOME', 'HOSTNAME', 'PATH', 'PWD', 'AWS_REGION', 'LOGNAME', 'LOG_FILE', 'npm_config_loglevel', 'NODE_OPTIONS', 'UV_THREADPOOL_SIZE', 'DATABASE_URL', 'SHELL', 'POSTGRES_PORT', 'KEYCLOAK_SERVICE_PORT_HTTP', 'KEYCLOAK_PORT_8080_TCP_ADDR', 'BASH_ENV'])(
    '%s, which is not the service\'s, causes none',
    (name) => {
      expect(warningsOf(name)).toEqual([]);
    },
  );

  it.each(['KEYCLOAK_ADMIN_PASSWORD', 'AUTH0_CHECK_DOMAIN', 'AUTH0_SETUP_CLIENT_ID', 'S3_PREFIX', 'STORAGE_TIMEOUT_MS'])('%s, which is known, causes none', (name) => {
    expect(warningsOf(name).filter((warning) => warning.includes('unknown'))).toEqual([]);
  });
});
