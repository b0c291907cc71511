import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AUDIENCE, now, rsaKey, signToken, TestIssuer } from '../../src/testing/test-issuer.js';
import { type RunningService, startService } from '../support/service.js';

const REALM = { IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_REALM: 'loads', KEYCLOAK_CLIENT_ID: 'service', KEYCLOAK_CLIENT_SECRET: 'secret' };

describe('with a Keycloak that is not there, the service', () => {
  /** It has had its port, which nobody listens on now. */
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

  it('cannot tell yet whether to believe a token of the realm', async () => {
    const claims = { iss: `${issuer.url}/realms/loads`, aud: AUDIENCE, sub: 's', exp: now() + 60 };
    const token = signToken(rsaKey(), { alg: 'RS256', kid: 'k' }, claims);
    expect(await get('/idpManagementBackend/users', { Authorization: `Bearer ${token}` })).toEqual({
      status: 503,
      body: { error: 'Identity provider unavailable.' },
    });
  });

  it('takes uploads', async () => {
    const url = `${service.url}/ingestHistoricalLoadData/upload_historical?customer_id=a&filename=b.csv&manufacturer=c`;
    expect((await fetch(url, { method: 'POST', body: 'a,b' })).status).toBe(200);
  });

  it('names where its tokens come from in its OpenAPI document', async () => {
    const { body } = await get('/docs-json');
    const tokenUrl = `${issuer.url}/realms/loads/protocol/openid-connect/token`;
    expect(body).toMatchObject({ components: { securitySchemes: { client: { flows: { clientCredentials: { tokenUrl } } } } } });
  });
});
