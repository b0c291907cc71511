import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Auth0StandIn, SERVICE_SCOPES, startAuth0StandIn } from './index.js';

const START = Date.UTC(2026, 0, 1);
const API = 'load-data-api';
/** How long a client waits for the keys. Longer than jose's default of five seconds, for a busy machine. */
const TIMEOUT_MS = 60_000;

describe('The stand-in for Auth0: tokens', () => {
  let standIn: Auth0StandIn;
  let now: number;
  beforeEach(async () => {
    now = START;
    standIn = await startAuth0StandIn({ apiScopes: ['read:users', 'read:roles'], now: () => now });
  });
  afterEach(() => standIn.stop());

  const audience = (): string => `${standIn.domain}/api/v2/`;
  const parameters = (changed: Record<string, string> = {}): Record<string, string> => ({
    grant_type: 'client_credentials',
    client_id: standIn.service.clientId,
    client_secret: standIn.service.clientSecret,
    audience: audience(),
    ...changed,
  });
  const ask = async (body: Record<string, string>): Promise<{ status: number; body: Record<string, unknown> }> => {
    const response = await fetch(`${standIn.domain}/oauth/token`, { method: 'POST', body: new URLSearchParams(body) });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const manage = async (token: unknown, operation = 'GET /roles', body?: unknown): Promise<{ status: number; body: unknown }> => {
    const [method = '', path = ''] = operation.split(' ');
    const headers = { authorization: `Bearer ${String(token)}`, 'content-type': 'application/json' };
    const response = await fetch(`${standIn.domain}/api/v2${path}`, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
    return { status: response.status, body: await response.json() };
  };

  it.each([
    ['a form', (body: Record<string, string>): RequestInit => ({ body: new URLSearchParams(body) })],
    ['JSON', (body: Record<string, string>): RequestInit => ({ body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })],
  ])('issues a token for the Management API in answer to %s', async (_, init) => {
    const response = await fetch(`${standIn.domain}/oauth/token`, { method: 'POST', ...init(parameters()) });
    const answer = (await response.json()) as Record<string, unknown>;
    expect(answer).toMatchObject({ expires_in: 86_400, token_type: 'Bearer', scope: SERVICE_SCOPES.join(' ') });
    expect((await manage(answer.access_token)).status).toBe(200);
  });

  it.each<[string, Record<string, string>, number, string, RegExp]>([
    ['a wrong secret', { client_secret: 'x' }, 401, 'access_denied', /^Unauthorized$/],
    ['an unknown application', { client_id: 'x' }, 401, 'access_denied', /^Unauthorized$/],
    ['an unknown audience', { audience: 'x' }, 403, 'access_denied', /^Service not enabled within domain: x$/],
    ['an API without a grant', { audience: API }, 403, 'access_denied', /^Client is not authorized to access "load-data-api"/],
    ['another grant type', { grant_type: 'password' }, 403, 'unauthorized_client', /./],
  ])('refuses %s with an OAuth error', async (_, changed, status, error, description) => {
    const message: unknown = expect.stringMatching(description);
    expect(await ask(parameters(changed))).toEqual({ status, body: { error, error_description: message } });
  });

  it('fixes the scopes of a token when it is issued', async () => {
    const { body } = await ask(parameters());
    standIn.grantService(['read:users']);
    expect((await manage(body.access_token)).status).toBe(200);
    const later = await ask(parameters());
    expect(await manage(later.body.access_token)).toMatchObject({ status: 403, body: { errorCode: 'insufficient_scope' } });
  });

  it('refuses a token that has expired, over time or on request', async () => {
    standIn.settings.tokenLifetimeSeconds = 60;
    const { body } = await ask(parameters());
    expect(body.expires_in).toBe(60);
    now = START + 59_999;
    expect((await manage(body.access_token)).status).toBe(200);
    now = START + 60_000;
    expect((await manage(body.access_token)).status).toBe(401);

    const second = await ask(parameters());
    standIn.expireManagementTokens();
    expect((await manage(second.body.access_token)).status).toBe(401);
    expect((await manage((await ask(parameters())).body.access_token)).status).toBe(200);
  });

  it("issues a registered application a token for the API with the permissions of its grant", async () => {
    const token = await standIn.issueManagementToken();
    const { body } = await manage(token, 'POST /clients', { name: 'uploader', app_type: 'non_interactive' });
    const { client_id: id, client_secret: secret } = body as { client_id: string; client_secret: string };
    const grant = { client_id: id, audience: API, scope: ['read:roles'] };
    expect(await manage(token, 'POST /client-grants', { ...grant, scope: ['no:such'] })).toMatchObject({ status: 400 });
    const granted = await manage(token, 'POST /client-grants', grant);
    expect(granted).toMatchObject({ status: 201, body: grant });
    expect((await manage(token, 'POST /client-grants', grant)).status).toBe(409);
    const change = await manage(token, `PATCH /client-grants/${(granted.body as { id: string }).id}`, { scope: ['read:users'] });
    expect(change).toMatchObject({ status: 200, body: { scope: ['read:users'] } });
    expect((await manage(token, `GET /client-grants?client_id=${id}`)).body).toMatchObject([{ audience: API, scope: ['read:users'] }]);

    const { access_token: own } = (await ask(parameters({ client_id: id, client_secret: secret, audience: API }))).body;
    expect(decodeJwt(String(own))).toMatchObject({ sub: `${id}@clients`, azp: id, gty: 'client-credentials', permissions: ['read:users'] });
  });

  describe('for the API', () => {
    const verify = (token: string) =>
      jwtVerify(token, createRemoteJWKSet(new URL(`${standIn.domain}/.well-known/jwks.json`), { timeoutDuration: TIMEOUT_MS }), {
        issuer: standIn.issuer,
        audience: API,
        currentDate: new Date(now),
      });
    const aReader = async (): Promise<string> => {
      const [userId = ''] = standIn.loadUsers(1);
      const token = await standIn.issueManagementToken();
      const { body } = await manage(token, 'POST /roles', { name: 'Reader' });
      const { id } = body as { id: string };
      const permissions = [{ resource_server_identifier: API, permission_name: 'read:users' }];
      await manage(token, `POST /roles/${id}/permissions`, { permissions });
      const roles = JSON.stringify({ roles: [id] });
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      await fetch(`${standIn.domain}/api/v2/users/${encodeURIComponent(userId)}/roles`, { method: 'POST', headers, body: roles });
      return userId;
    };

    it('name the user, are signed by a published key, and contain the permissions of the roles', async () => {
      const userId = await aReader();
      expect(standIn.permissionsOf(userId)).toEqual(['read:users']);
      const { payload, protectedHeader } = await verify(await standIn.issueToken({ userId, scope: 'openid read:users read:roles' }));
      expect(protectedHeader).toMatchObject({ alg: 'RS256', typ: 'JWT' });
      expect(payload).toMatchObject({
        iss: `${standIn.domain}/`,
        sub: userId,
        aud: [API, `${standIn.domain}/userinfo`],
        scope: 'openid read:users',
        permissions: ['read:users'],
      });
      expect(payload).not.toHaveProperty('gty');
    });

    it.each([
      ['without RBAC', { enforce_policies: false }, false, 'JWT'],
      ['in the dialect without permissions', { token_dialect: 'access_token' }, false, 'JWT'],
      ['in the RFC 9068 dialect', { token_dialect: 'rfc9068_profile' }, false, 'at+jwt'],
      ['in the RFC 9068 dialect with permissions', { token_dialect: 'rfc9068_profile_authz' }, true, 'at+jwt'],
    ])('have the right type, and permissions only where Auth0 adds them: %s', async (_, settings, hasPermissions, type) => {
      const userId = await aReader();
      await manage(await standIn.issueManagementToken(), `PATCH /resource-servers/${API}`, settings);
      const token = await standIn.issueToken({ userId });
      expect([Object.hasOwn(decodeJwt(token), 'permissions'), decodeProtectedHeader(token).typ]).toEqual([hasPermissions, type]);
    });

    it('contain customer_id when the tenant has an Action for it', async () => {
      const [userId = ''] = standIn.loadUsers(1);
      const change = { app_metadata: { customer_id: ['acme'] } };
      await manage(await standIn.issueManagementToken(), `PATCH /users/${encodeURIComponent(userId)}`, change);
      expect(decodeJwt(await standIn.issueToken({ userId }))).not.toHaveProperty('customer_id');
      standIn.settings.hasCustomerIdAction = true;
      expect(decodeJwt(await standIn.issueToken({ userId }))).toMatchObject({ customer_id: ['acme'] });
    });

    it('take their permissions, lifetime and claims from the test', async () => {
      const token = await standIn.issueToken({ permissions: ['create:users'], lifetimeSeconds: -3600, claims: { iss: 'other' } });
      expect(decodeJwt(token)).toMatchObject({ permissions: ['create:users'], exp: START / 1000 - 3600, iss: 'other' });
    });

    it('stay valid when keys rotate, until the old key is revoked', async () => {
      const before = await standIn.issueToken();
      standIn.rotateKeys();
      const after = await standIn.issueToken();
      expect(decodeProtectedHeader(after).kid).not.toBe(decodeProtectedHeader(before).kid);
      await verify(before);
      await verify(after);
      standIn.revokePreviousKeys();
      await expect(verify(before)).rejects.toMatchObject({ code: 'ERR_JWKS_NO_MATCHING_KEY' });
      await verify(after);
    });
  });

  it('publishes its OpenID configuration', async () => {
    const response = await fetch(`${standIn.issuer}.well-known/openid-configuration`);
    expect(await response.json()).toMatchObject({ issuer: standIn.issuer, jwks_uri: `${standIn.domain}/.well-known/jwks.json` });
  });
});
