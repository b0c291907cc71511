import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Auth0StandIn } from '../../src/testing/index.js';
import { auth0Variables, operatorToken, startTenant } from '../support/auth0-tenant.js';
import { callManagementApi } from '../support/checked-auth0.js';
import { fresh, freshEmail, identityRequests } from '../support/identity-requests.js';
import { undocumentedMembers } from '../support/log-page.js';
import { type RunningService, startService } from '../support/service.js';
import { swaggerUiOptions } from '../support/swagger-ui.js';

const PATIENCE = { timeout: 10_000, interval: 50 };
const MAIL = 'POST /dbconnections/change_password';

describe('a new user of an Auth0 tenant', () => {
  let tenant: Auth0StandIn;
  let service: RunningService;
  const target = { url: '', token: '' };
  const { post, created } = identityRequests(target);

  beforeEach(async () => {
    tenant = (await startTenant()).standIn;
    await start({ AUTH0_INVITATION_MAIL: 'true' });
    return async () => {
      await service.close();
      await tenant.stop();
      expect(await undocumentedMembers(service.log.objects)).toEqual([]);
    };
  });

  async function start(variables: Record<string, string>): Promise<void> {
    service = await startService({ ...auth0Variables(tenant), ...variables });
    Object.assign(target, { url: service.url, token: await operatorToken(tenant) });
  }
  async function invite(): Promise<{ email: string; userId: string; roleId: string }> {
    const email = freshEmail();
    const roleId = await created('create-role', { role_name: fresh(), permissions: ['read:users'] });
    return { email, roleId, userId: await created('create-user', { email, roles: [roleId] }) };
  }
  const warnings = () => service.log.entries.filter(({ level }) => level === 'warn').map(({ text }) => text);
  const sent = () => service.log.entries.filter(({ level, text }) => level === 'info' && text.includes('invitation')).map(({ text }) => text);

  it('gets a mail once they have their roles', async () => {
    const { email, userId, roleId } = await invite();
    await expect.poll(() => tenant.mails, PATIENCE).toEqual([
      { kind: 'change-password', to: email, userId, at: expect.any(Number) as number, roles: [roleId] },
    ]);
    await expect.poll(sent, PATIENCE).toEqual([expect.stringContaining(userId)]);
    expect(warnings()).toEqual([]);
    expect(service.log.text).not.toContain(email);
  });

  it.each<[string, () => void]>([
    ['the roles are refused', () => { tenant.fail('POST /api/v2/users/{id}/roles', { kind: 'answer', status: 400, body: {} }); }],
    ['the creation is refused', () => { tenant.fail('POST /api/v2/users', { kind: 'answer', status: 400, body: {} }); }],
    ['the answer to the creation is lost', () => { tenant.fail('POST /api/v2/users', { kind: 'lost-answer' }); }],
  ])('gets none when %s', async (_, spoil) => {
    const roleId = await created('create-role', { role_name: fresh(), permissions: ['read:users'] });
    spoil();
    expect((await post('create-user', { email: freshEmail(), roles: [roleId] })).status).toBeGreaterThanOrEqual(400);
    // The service requests mails from the tenant in order. So if the mail for a later user has come, none will come for
    // an earlier one.
    const { email } = await invite();
    await expect.poll(() => tenant.mails.map(({ to }) => to), PATIENCE).toEqual([email]);
    expect(tenant.count(MAIL)).toBe(1);
  });

  it.each<[string, Parameters<Auth0StandIn['fail']>[1]]>([
    ['is refused', { kind: 'answer', status: 429, body: {} }],
    ['gets no answer', { kind: 'reset' }],
  ])('remains when the mail %s, and the log warns without an address', async (_, fault) => {
    tenant.fail(MAIL, fault);
    const { email, userId } = await invite();
    await expect.poll(warnings, PATIENCE).toEqual([expect.stringContaining(userId)]);
    expect(service.log.text).not.toContain(email);
    expect((await callManagementApi(tenant, `GET /users/${encodeURIComponent(userId)}`)).status).toBe(200);
    const next = await invite();
    await expect.poll(() => tenant.mails.map(({ to }) => to), PATIENCE).toEqual([next.email]);
    await expect.poll(sent, PATIENCE).toEqual([expect.stringContaining(next.userId)]);
  });

  it('does not wait for a mail, nor does the shutdown of the service, which logs the users who may have got none', async () => {
    tenant.fail(MAIL, { kind: 'silence' });
    const invited = [await invite(), await invite()];
    await expect.poll(() => tenant.count(MAIL), PATIENCE).toBe(1);
    await service.close();
    expect(warnings()).toEqual(invited.map(({ userId }): unknown => expect.stringContaining(userId)));
  });

  describe('without AUTH0_INVITATION_MAIL', () => {
    beforeEach(async () => {
      await service.close();
      await start({});
    });
    afterEach(() => {
      expect(tenant.count(MAIL)).toBe(0);
    });

    it('gets no mail, and can get a link from an administrator', async () => {
      const { userId } = await invite();
      await service.close();
      expect(tenant.mails).toEqual([]);
      const { status, body } = await callManagementApi(tenant, 'POST /tickets/password-change', { user_id: userId });
      expect({ status, body }).toEqual({ status: 201, body: { ticket: expect.stringMatching(/^http/) as string } });
    });
  });
});

describe("on Auth0, Swagger UI's Authorize", () => {
  const AUTH0 = { IDENTITY_PROVIDER: 'auth0', AUTH0_DOMAIN: 'tenant.eu.auth0.com', AUTH0_CLIENT_ID: 'service', AUTH0_CLIENT_SECRET: 'secret', OIDC_AUDIENCE: 'load-data-api' };

  it.each<[string, Record<string, string>, string]>([
    ["at the tenant's own domain", {}, 'https://tenant.eu.auth0.com'],
    ['at a custom domain', { OIDC_ISSUER: 'https://login.grid.example/' }, 'https://login.grid.example'],
  ])('logs users in with SWAGGER_UI_CLIENT_ID %s, and requests tokens for the API', async (_, variables, domain) => {
    const service = await startService({ ...AUTH0, SWAGGER_UI_CLIENT_ID: 'swagger-ui', ...variables });
    expect(await swaggerUiOptions(service.url)).toMatchObject({
      flows: { authorizationCode: { authorizationUrl: `${domain}/authorize`, tokenUrl: `${domain}/oauth/token` }, clientCredentials: { tokenUrl: `${domain}/oauth/token` } },
      oauth2RedirectUrl: `${service.url}/docs/oauth2-redirect.html`,
      initOAuth: { clientId: 'swagger-ui', usePkceWithAuthorizationCodeGrant: true, additionalQueryStringParams: { audience: 'load-data-api' } },
    });
    const { headers } = await fetch(`${service.url}/docs`);
    expect(headers.get('content-security-policy')).toContain(`connect-src 'self' ${domain};`);
    await service.close();
  });

  it('logs no user in without SWAGGER_UI_CLIENT_ID', async () => {
    const service = await startService(AUTH0);
    expect((await swaggerUiOptions(service.url)).flows).not.toHaveProperty('authorizationCode');
    await service.close();
  });
});
