import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AUDIENCE, now, signToken, TestIssuer } from '../../src/testing/test-issuer.js';
import { type RunningService, startService } from '../support/service.js';
import { sharedRsaKey } from '../support/signing-keys.js';
import { swaggerUiOptions } from '../support/swagger-ui.js';

const REALM = { IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_REALM: 'loads', KEYCLOAK_CLIENT_ID: 'service', KEYCLOAK_CLIENT_SECRET: 'secret' };

describe('with an unreachable Keycloak, the service', () => {
  /**
   * A server that is started and stopped again, so that nothing listens at its URL, which the service uses as
   * Keycloak's.
   */
  const issuer = new TestIssuer();
  let service: RunningService;

  beforeAll(async () => {
    await issuer.start();
    await issuer.stop();
    service = await startService({ ...REALM, KEYCLOAK_URL: `${issuer.url}/` });
  });
  afterAll(() => service.close());

  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(service.url + path, { headers });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  it.each([
    ['is live', '/health/live', 200],
    ['is not ready', '/health/ready', 503],
    ['has no issuer of its own', '/idp/.well-known/openid-configuration', 404],
  ])('%s', async (_, path, status) => {
    expect((await get(path)).status).toBe(status);
  });

  it('answers 503 to a token of the realm, because it cannot verify the token yet', async () => {
    const claims = { iss: `${issuer.url}/realms/loads`, aud: AUDIENCE, sub: 's', exp: now() + 60 };
    const token = signToken(sharedRsaKey(), { alg: 'RS256', kid: 'k' }, claims);
    expect(await get('/idpManagementBackend/users', { Authorization: `Bearer ${token}` })).toEqual({
      status: 503,
      body: { error: 'Identity provider unavailable.' },
    });
  });

  it('accepts uploads', async () => {
    const url = `${service.url}/ingestHistoricalLoadData/upload_historical?customer_id=a&filename=b.csv&manufacturer=c`;
    expect((await fetch(url, { method: 'POST', body: 'a,b' })).status).toBe(200);
  });
});

describe("on Keycloak, Swagger UI's Authorize", () => {
  const KEYCLOAK = { ...REALM, KEYCLOAK_URL: 'http://keycloak:8080' };
  const LOGIN = { ...KEYCLOAK, SWAGGER_UI_CLIENT_ID: 'swagger-ui' };
  const PROXIED = { BASE_PATH: '/v1', PUBLIC_URL: 'https://api.example/outer/v1' };
  const HERE = 'http://keycloak:8080/realms/loads';
  const PUBLIC = 'https://id.example/realms/loads';

  const policies = async (url: string) => {
    const { headers } = await fetch(url);
    const [, connect = ''] = /connect-src ([^;]*)/.exec(headers.get('content-security-policy') ?? '') ?? [];
    return { connect, opener: headers.get('cross-origin-opener-policy') };
  };

  it.each<[string, Record<string, string>, { issuer: string; base: (port: number) => string }]>([
    ['by itself', LOGIN, { issuer: HERE, base: (port) => `http://127.0.0.1:${port}` }],
    ['behind a proxy', { ...LOGIN, ...PROXIED }, { issuer: HERE, base: () => PROXIED.PUBLIC_URL }],
    ['with a Keycloak that has another name outside', { ...LOGIN, OIDC_ISSUER: PUBLIC }, { issuer: PUBLIC, base: (port) => `http://127.0.0.1:${port}` }],
  ])('logs users in with SWAGGER_UI_CLIENT_ID: %s', async (_, variables, { issuer, base }) => {
    const service = await startService(variables);
    const url = `http://127.0.0.1:${service.port}${variables.BASE_PATH ?? ''}`;
    const tokenUrl = `${issuer}/protocol/openid-connect/token`;
    expect(await swaggerUiOptions(url)).toMatchObject({
      flows: { authorizationCode: { authorizationUrl: `${issuer}/protocol/openid-connect/auth`, tokenUrl }, clientCredentials: { tokenUrl } },
      oauth2RedirectUrl: `${base(service.port)}/docs/oauth2-redirect.html`,
      initOAuth: { clientId: 'swagger-ui', usePkceWithAuthorizationCodeGrant: true },
    });
    const { paths } = (await (await fetch(`${url}/docs-json`)).json()) as { paths: Record<string, Record<string, { security?: object[] }>> };
    const operations = Object.entries(paths).filter(([path]) => path.startsWith('/idp')).flatMap(([, methods]) => Object.values(methods));
    expect(operations).toHaveLength(6);
    for (const { security } of operations) expect(security).toContainEqual({ client: [] });

    const connect = `'self' ${new URL(issuer).origin}`;
    expect(await policies(`${url}/docs`)).toEqual({ connect, opener: 'same-origin-allow-popups' });
    expect(await policies(`${url}/docs/oauth2-redirect.html`)).toEqual({ connect, opener: 'unsafe-none' });
    await service.close();
  });

  it('without it accepts only a client and its secret', async () => {
    const service = await startService(KEYCLOAK);
    const { flows, oauth2RedirectUrl, initOAuth } = await swaggerUiOptions(service.url);
    expect(flows).toEqual({ clientCredentials: { tokenUrl: `${HERE}/protocol/openid-connect/token`, scopes: {} } });
    expect({ oauth2RedirectUrl, pkce: initOAuth.usePkceWithAuthorizationCodeGrant }).toEqual({ oauth2RedirectUrl: undefined, pkce: false });
    expect(await policies(`${service.url}/docs`)).toEqual({ connect: "'self' http://keycloak:8080", opener: 'same-origin' });
    await service.close();
  });
});
