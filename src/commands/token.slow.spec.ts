import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLocalJWKSet, type JWTPayload, jwtVerify } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../authentication/permissions.js';
import { EmbeddedIdentityProvider } from '../identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { loadSigningKeys } from '../identity-management/adapters/out/embedded/signing-keys.js';

const BUILT = join(process.cwd(), 'dist/commands/token.js');
const KEYCLOAK = {
  IDENTITY_PROVIDER: 'keycloak',
  KEYCLOAK_URL: 'http://127.0.0.1:8080',
  KEYCLOAK_REALM: 'r',
  KEYCLOAK_CLIENT_ID: 'c',
  KEYCLOAK_CLIENT_SECRET: 's',
};
const options = { signal: new AbortController().signal };

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

describe('npm run token', () => {
  let directory: string;
  let data: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'token-'));
    data = join(directory, 'data');
    // Creates the directory of the embedded identity provider, as the first start of a service does.
    mkdirSync(join(data, 'identity'), { recursive: true });
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  function run(parameters: readonly string[] = [], environment: Readonly<Record<string, string>> = {}): Promise<Run> {
    return new Promise((resolve) => {
      const settings = { cwd: directory, env: { DATA_DIR: data, ...environment } };
      execFile(process.execPath, [BUILT, ...parameters], settings, (error, stdout, stderr) => {
        resolve({ code: Number(error?.code ?? 0), stdout, stderr });
      });
    });
  }

  async function verify({ code, stdout, stderr }: Run): Promise<JWTPayload> {
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const keys = (await loadSigningKeys(data)).map(({ publicJwk }) => publicJwk);
    return (await jwtVerify(stdout.trim(), createLocalJWKSet({ keys }), { typ: 'at+jwt', algorithms: ['RS256'] })).payload;
  }

  function expectRefusal({ code, stdout, stderr }: Run, message: RegExp): void {
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toMatch(message);
  }

  it("creates the keys if they are missing, and prints the administrator's token", async () => {
    expect(await verify(await run())).toMatchObject({
      iss: 'http://127.0.0.1:3000/idp',
      aud: 'load-data-api',
      sub: 'admin',
      permissions: [...PERMISSIONS],
      customer_id: '*',
    });
  });

  it('puts the given customers into the token', async () => {
    expect((await verify(await run(['--customer', '42', '--customer=a b']))).customer_id).toEqual(['42', 'a b']);
  });

  it('prints a token for a user, with their current permissions', async () => {
    const provider = await EmbeddedIdentityProvider.open(data);
    const roleId = await provider.createRole({ name: 'Readers', permissions: ['read:users'] }, options);
    const userId = await provider.createUser({ email: 'ada@example.com', name: 'Ada', roleIds: [roleId] }, options);
    await provider.close();
    const payload = await verify(await run(['--user', userId, '--customer', '42']));
    expect(payload).toMatchObject({ sub: userId, permissions: ['read:users'], customer_id: '42' });
    expect(await verify(await run(['--user', userId]))).not.toHaveProperty('customer_id');
  });

  it('uses the issuer and audience of the running service, and works while it runs', async () => {
    const provider = await EmbeddedIdentityProvider.open(data);
    // Creates the signing keys of the embedded identity provider, as a service does before it listens.
    await loadSigningKeys(data);
    await provider.recordClaims({ issuer: 'http://127.0.0.1:49152/idp', audience: 'other' });
    const settings = { OIDC_ISSUER: 'https://issuer.example' };
    expect(await verify(await run([], settings))).toMatchObject({ iss: 'http://127.0.0.1:49152/idp', aud: 'other' });
    await expect(provider.checkHealth(options)).resolves.toBeUndefined();
    await provider.close();
    expect((await verify(await run([], settings))).iss).toBe('https://issuer.example');
  });

  it('reads missing variables from .env, and derives the issuer from the base URL', async () => {
    writeFileSync(join(directory, '.env'), 'PORT=4000\nBASE_PATH=/base\nOIDC_AUDIENCE=other\n');
    expect(await verify(await run())).toMatchObject({ iss: 'http://127.0.0.1:4000/base/idp', aud: 'other' });
  });

  it.each([
    ['so many customers that the service would refuse the token', Array.from({ length: 400 }, (_, at) => ['--customer', `customer-${at}-${'x'.repeat(30)}`]).flat(), /The token would have \d+ characters/],
    ['an unknown user', ['--user', 'embedded|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10'], /There is no user "embedded\|4b1b/],
    ['a malformed user', ['--user', 'x\ny'], /There is no user "x\\ny"/],
    ['an empty user', ['--user', ''], /There is no user ""/],
    ['an unknown option', ['--role', 'x'], /Unknown option '--role'.*usage: load-data-service token/],
    ['an extra argument', ['x'], /usage: load-data-service token/],
    ['an option without its value', ['--user'], /usage: load-data-service token/],
    ['an empty customer', ['--customer', ''], /--customer must not be empty.*usage: load-data-service token/],
  ])('refuses %s in one line', async (_, parameters, message) => {
    expectRefusal(await run(parameters), message);
  });

  it.each([
    ['does not exist', false],
    ['is not that of a service', true],
  ])('refuses a DATA_DIR that %s in one line, and creates nothing', async (_, exists) => {
    const other = join(directory, 'other');
    if (exists) {
      mkdirSync(other);
      writeFileSync(join(other, 'of-somebody-else'), '');
    }
    expectRefusal(await run([], { DATA_DIR: other }), new RegExp(`^There is no ${other}/identity: set DATA_DIR to that of the service, or start`));
    expect([existsSync(other), existsSync(join(other, 'identity'))]).toEqual([exists, false]);
  });

  it('prints a token for an empty DATA_DIR, which is that of a service before its first start', async () => {
    const empty = join(directory, 'empty');
    mkdirSync(empty);
    expect(await run([], { DATA_DIR: empty })).toMatchObject({ code: 0, stderr: '' });
  });

  it('reports each problem of the environment on its own line', async () => {
    const { code, stdout, stderr } = await run([], { PORT: 'x', LOG_LEVEL: 'loud' });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr.trimEnd().split('\n').map((line) => line.split(':')[0]).sort()).toEqual(['LOG_LEVEL', 'PORT']);
  });

  it('refuses to issue tokens for another identity provider', async () => {
    expectRefusal(await run([], KEYCLOAK), /\(IDENTITY_PROVIDER\)/);
  });

  it('reports in one line that DATA_DIR cannot be used', async () => {
    rmSync(data, { recursive: true });
    writeFileSync(data, '');
    expectRefusal(await run(), new RegExp(`^${data} is not a directory: move it away, or set DATA_DIR to another directory$`, 'm'));
    expect(readdirSync(directory)).toEqual(['data']);
  });
});
