import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Auth0StandIn, TokenRequest } from '../../src/testing/index.js';
import { auth0Variables, operatorToken, startTenant } from '../support/auth0-tenant.js';
import { callManagementApi, type CheckedAuth0, ownViolations } from '../support/checked-auth0.js';
import { identityOperations } from '../support/identity-operations.js';
import { BASE, fresh, freshEmail, identityRequests } from '../support/identity-requests.js';
import { type RunningService, startService } from '../support/service.js';
import { swaggerUiOptions } from '../support/swagger-ui.js';

let checked: CheckedAuth0;
let tenant: Auth0StandIn;
let service: RunningService;

const start = async () => {
  checked = await startTenant({ searchDelayMs: 200, largestPage: 50, unknownRole: 'ignored' });
  tenant = checked.standIn;
  service = await startService({ ...auth0Variables(tenant), SWAGGER_UI_CLIENT_ID: 'single-page' });
  return { url: service.url, token: await operatorToken(tenant) };
};
const stop = async () => {
  await service.close();
  await tenant.stop();
  expect(ownViolations(checked)).toEqual([]);
};

identityOperations('Auth0', {
  userId: 'auth0\\|[0-9a-f]{24}',
  roleId: 'rol_[A-Za-z0-9]{16}',
  userPrefix: 'auth0|',
  rolePrefix: 'rol_',
  unknownRoleId: 'rol_fedcba9876543210',
  start,
  stop,
  permissionsOf: (userId) => Promise.resolve(tenant.permissionsOf(userId)),
  tokenOf: (userId) => tenant.issueToken({ userId }),
});

describe('the service on Auth0', () => {
  const target = { url: '', token: '' };
  const { send, post, created, list, known, makeKnown } = identityRequests(target);

  beforeAll(async () => {
    Object.assign(target, await start());
    await makeKnown();
  });
  afterAll(stop);

  const statuses = async (token: string) => {
    const headers = { Authorization: `Bearer ${token}` };
    return [(await send('GET', `${BASE}/users`, { headers })).status, (await send('GET', `${BASE}/roles`, { headers })).status];
  };

  it('has no issuer of its own', async () => {
    expect((await send('GET', '/idp/.well-known/openid-configuration')).status).toBe(404);
  });

  it.each<[string, TokenRequest]>([
    ['has expired', { lifetimeSeconds: -60 }],
    ['is for another API', { claims: { aud: 'another' } }],
    ['has an issuer without its trailing slash', { claims: { iss: 'http://127.0.0.1' } }],
  ])('refuses a token that %s', async (_, request) => {
    expect(await statuses(await tenant.issueToken({ permissions: ['read:users', 'read:roles'], ...request }))).toEqual([403, 403]);
  });

  it('shows in Swagger UI where to get tokens for the API, and that machines may need a Default Audience', async () => {
    const tokenUrl = `${tenant.domain}/oauth/token`;
    expect(await swaggerUiOptions(service.url)).toMatchObject({
      flows: { authorizationCode: { authorizationUrl: `${tenant.domain}/authorize`, tokenUrl }, clientCredentials: { tokenUrl } },
      initOAuth: { clientId: 'single-page', usePkceWithAuthorizationCodeGrant: true, additionalQueryStringParams: { audience: 'load-data-api' } },
    });
    expect((await send('GET', '/docs-json')).body).toContain('Default Audience');
  });

  it('lists the users of others once the search shows them', async () => {
    const [id] = tenant.loadUsers(1, { provider: 'google-oauth2', namePrefix: 'Grace ' });
    expect(await list('users')).toContainEqual({ user_id: id, name: expect.stringContaining('Grace ') as string, email: expect.anything() as string });
  });

  it('assigns roles to a user of another connection, but rejects a change of the name', async () => {
    const [id] = tenant.loadUsers(1, { provider: 'google-oauth2' });
    expect((await post('assign-role', { user_id: id, role_id: known.roleId })).status).toBe(200);
    expect((await post('update-user', { user_id: id, new_name: 'Ada' })).status).toBe(400);
  });

  it('assigns 50 roles to a user, and rejects one more, even at creation', async () => {
    const roles = await Promise.all(Array.from({ length: 51 }, () => created('create-role', { role_name: fresh(), permissions: ['read:users'] })));
    expect((await post('create-user', { email: freshEmail(), roles })).status).toBe(400);
    const userId = await created('create-user', { email: freshEmail(), roles: roles.slice(1) });
    expect((await post('assign-role', { user_id: userId, role_id: roles[0] })).status).toBe(400);
  });

  it('sends no mail by default', async () => {
    await created('create-user', { email: freshEmail(), roles: [known.roleId] });
    expect(tenant.mails).toEqual([]);
  });

  describe('makes the minimum of calls to Auth0', () => {
    /** The calls to Auth0 that a request to the service causes, each as method and path with `{id}` in place of ids. */
    async function callsOf(work: () => Promise<{ status: number }>): Promise<string[]> {
      const before = tenant.requests.length;
      expect((await work()).status).toBeLessThan(300);
      return tenant.requests.slice(before).map(({ method, path }) => `${method} ${path.replace('/api/v2', '').replaceAll(/(auth0%7C|rol_)\w+/g, '{id}')}`);
    }
    const GET_SCOPES = 'GET /resource-servers/load-data-api';

    it.each<[string, () => Promise<string>, (roleId: string) => Promise<{ status: number }>, string[]]>([
      [
        'assign-role',
        () => Promise.resolve(known.roleId),
        (roleId) => post('assign-role', { user_id: known.userId, role_id: roleId }),
        ['GET /roles/{id}', 'POST /users/{id}/roles'],
      ],
      [
        'assign-role with a role of others',
        async () => ((await callManagementApi(tenant, 'POST /roles', { name: 'by others' })).body as { id: string }).id,
        (roleId) => post('assign-role', { user_id: known.userId, role_id: roleId }),
        ['GET /roles/{id}', 'POST /users/{id}/roles'],
      ],
      ['update-user', () => Promise.resolve(''), () => post('update-user', { user_id: known.userId, new_name: 'Grace' }), ['PATCH /users/{id}']],
      ['create-user without roles', () => Promise.resolve(''), () => post('create-user', { email: freshEmail(), roles: [] }), ['POST /users']],
      [
        'create-user',
        () => Promise.resolve(known.roleId),
        (roleId) => post('create-user', { email: freshEmail(), roles: [roleId] }),
        ['GET /roles/{id}', 'POST /users', 'POST /users/{id}/roles'],
      ],
      [
        'create-role',
        () => Promise.resolve(''),
        () => post('create-role', { role_name: fresh(), permissions: ['read:users'] }),
        [GET_SCOPES, 'POST /roles', 'POST /roles/{id}/permissions'],
      ],
      [
        'create-role with a new permission',
        () => Promise.resolve(''),
        () => post('create-role', { role_name: fresh(), permissions: ['read:users', 'new:permission'] }),
        [GET_SCOPES, 'PATCH /resource-servers/load-data-api', GET_SCOPES, 'POST /roles', 'POST /roles/{id}/permissions'],
      ],
    ])('for %s', async (_, prepare, work, calls) => {
      const roleId = await prepare();
      expect(await callsOf(() => work(roleId))).toEqual(calls);
    });

    it('for one token in total', () => {
      expect(tenant.count('POST /oauth/token')).toBe(1);
    });
  });

  it('loses no permission of 20 simultaneous roles with new permissions', async () => {
    const given = (index: number) => [`new-${index}:a`, `new-${index}:b`];
    const roles = await Promise.all(
      Array.from({ length: 20 }, (_, index) => created('create-role', { role_name: fresh(), permissions: given(index) })),
    );
    for (const [index, roleId] of roles.entries()) {
      const userId = await created('create-user', { email: freshEmail(), roles: [roleId] });
      expect(tenant.permissionsOf(userId).sort()).toEqual(given(index));
    }
  });
});

describe("while Auth0's keys can't be fetched, a new service", () => {
  const KEYS = 'GET /.well-known/jwks.json';
  const target = { url: '', token: '' };
  const { send, ask } = identityRequests(target);

  beforeAll(async () => {
    checked = await startTenant();
    tenant = checked.standIn;
    tenant.fail(KEYS, { kind: 'answer', status: 500 }, { times: Infinity });
    service = await startService(auth0Variables(tenant));
    Object.assign(target, { url: service.url, token: await operatorToken(tenant) });
  });
  afterAll(stop);

  it('is not ready, because no operation on roles and users can be served, and still stores uploads', async () => {
    const ready = await send('GET', '/health/ready');
    expect([ready.status, JSON.parse(ready.body)]).toMatchObject([503, { info: { file_storage: { status: 'up' } }, error: { identity_provider: { status: 'down' } } }]);
    expect((await ask('roles')).status).toBe(503);
    const upload = '/ingestNowcastLoadData/upload_nowcast?customer_id=a&filename=b.csv&manufacturer=c';
    expect((await send('POST', upload, { body: 'a,b' })).status).toBe(200);
  });

  it('is ready again once they can be fetched', async () => {
    tenant.recover();
    await expect.poll(async () => (await send('GET', '/health/ready')).status, { timeout: 10_000 }).toBe(200);
    expect((await ask('roles')).status).toBe(200);
  });
});
