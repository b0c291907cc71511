import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Called, callManagementApi, type CheckedAuth0, ownViolations, startCheckedAuth0 } from '../../../test/support/checked-auth0.js';
import type { Auth0StandIn } from './index.js';

const CONNECTION = 'Username-Password-Authentication';
const ADA = { connection: CONNECTION, email: 'ada@example.com', password: 'Analytical-1843', verify_email: false };
const UNKNOWN_USER = 'auth0%7Cnobody';
const UNKNOWN_ROLE = 'rol_0000000000000000';
const PERMISSION = { resource_server_identifier: 'load-data-api', permission_name: 'read:users' };

describe('The stand-in for Auth0: Management API', () => {
  let checked: CheckedAuth0;
  let standIn: Auth0StandIn;
  beforeEach(async () => {
    checked = await startCheckedAuth0({ apiScopes: ['read:users', 'read:roles'] });
    standIn = checked.standIn;
  });
  afterEach(async () => {
    await standIn.stop();
    expect(ownViolations(checked)).toEqual([]);
  });

  const call = (operation: string, body?: unknown, token?: string): Promise<Called> => callManagementApi(standIn, operation, body, token);
  const created = async (user: object = {}): Promise<string> => {
    const { status, body } = await call('POST /users', { ...ADA, ...user });
    expect(status).toBe(201);
    return encodeURIComponent((body as { user_id: string }).user_id);
  };
  const createdRole = async (name = 'Operator'): Promise<string> => {
    const { body } = await call('POST /roles', { name });
    return (body as { id: string }).id;
  };

  describe('refuses with an error of the API', () => {
    it.each<[string, string, unknown, number, string | undefined]>([
      ['an unknown path', 'GET /nothing', undefined, 404, undefined],
      ['malformed JSON', 'POST /users', '{"a"', 400, 'invalid_body'],
      ['a user without a connection', 'POST /users', { email: 'a@b.c', password: 'Analytical-1843' }, 400, 'invalid_body'],
      ['a user with an unknown connection', 'POST /users', { ...ADA, connection: 'other' }, 400, 'inexistent_connection'],
      ['a user without a password', 'POST /users', { connection: CONNECTION, email: 'a@b.c' }, 400, 'invalid_body'],
      ['a user with roles, which cannot be given at creation', 'POST /users', { ...ADA, roles: [] }, 400, 'invalid_body'],
      ['an empty name', 'POST /users', { ...ADA, name: '' }, 400, 'invalid_body'],
      ['a name over 300 characters', 'POST /users', { ...ADA, name: '😀'.repeat(301) }, 400, 'invalid_body'],
      ['a blank in an id of our own', 'POST /users', { ...ADA, user_id: 'a b' }, 400, 'invalid_body'],
      ['a weak password', 'POST /users', { ...ADA, password: 'analytical' }, 400, undefined],
      ['a password over 72 bytes', 'POST /users', { ...ADA, password: `Aa1-${'x'.repeat(69)}` }, 400, undefined],
      ['an unknown user', `GET /users/${UNKNOWN_USER}`, undefined, 404, 'inexistent_user'],
      ['a change of an unknown user', `PATCH /users/${UNKNOWN_USER}`, { name: 'Ada' }, 404, 'inexistent_user'],
      ['roles for an unknown user', `POST /users/${UNKNOWN_USER}/roles`, { roles: [UNKNOWN_ROLE] }, 404, 'inexistent_user'],
      ['an id that is not percent-encoded correctly', 'GET /users/auth0%7', undefined, 400, 'invalid_uri'],
      ['no roles to assign', `POST /users/${UNKNOWN_USER}/roles`, { roles: [] }, 400, 'invalid_body'],
      ['the name of a role to assign', `POST /users/${UNKNOWN_USER}/roles`, { roles: ['Operator'] }, 400, 'invalid_body'],
      ['a role without a name', 'POST /roles', {}, 400, 'invalid_body'],
      ['permissions of a role in an unknown member', `POST /roles/${UNKNOWN_ROLE}/permissions`, { scopes: [] }, 400, 'invalid_body'],
      ['an unknown API', 'GET /resource-servers/nothing', undefined, 404, 'inexistent_resource_server'],
      ['an API whose identifier is in use', 'POST /resource-servers', { identifier: 'load-data-api' }, 409, undefined],
      ['a reserved scope', 'PATCH /resource-servers/load-data-api', { scopes: [{ value: 'profile' }] }, 400, 'invalid_body'],
      ['a scope over 280 characters', 'PATCH /resource-servers/load-data-api', { scopes: [{ value: 's'.repeat(281) }] }, 400, 'invalid_body'],
      ['a page of over 100 items', 'GET /users?per_page=101', undefined, 400, 'invalid_query_string'],
      ['a page that is not a natural number', 'GET /roles?page=-1', undefined, 400, 'invalid_query_string'],
      ['an unknown job', 'GET /jobs/job_0000000000000000', undefined, 404, 'inexistent_job'],
    ])('%s', async (_, operation, body, status, errorCode) => {
      const refusal = await call(operation, body);
      const message: unknown = expect.any(String);
      const error: unknown = expect.any(String);
      expect(refusal).toMatchObject({ status, body: { statusCode: status, error, message } });
      expect((refusal.body as { errorCode?: string }).errorCode).toBe(errorCode);
    });

    it.each<[string, string | undefined, number, string]>([
      ['no token', undefined, 401, 'Missing authentication'],
      ['a token that is no JWT', 'Bearer abc', 400, 'Bad HTTP authentication header format'],
      ['a JWT of another issuer', 'Bearer a.b.c', 401, 'Invalid token.'],
    ])('%s', async (_, authorization, status, message) => {
      const response = await fetch(`${standIn.domain}/api/v2/roles`, { headers: { ...(authorization !== undefined && { authorization }) } });
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ statusCode: status, message });
    });

    it('a token for the API instead of the Management API', async () => {
      expect(await call('GET /roles', undefined, await standIn.issueToken())).toMatchObject({ status: 401 });
    });

    it.each([
      ['GET /users', ['read:users']],
      ['POST /users', ['create:users']],
      ['DELETE /users/auth0%7Ca', ['delete:users']],
      ['GET /users-by-email?email=a', ['read:users']],
      ['POST /users/auth0%7Ca/roles', ['read:roles', 'update:users', 'create:role_members']],
      ['GET /users/auth0%7Ca/roles', ['read:users', 'read:roles', 'read:role_members']],
      ['POST /roles', ['create:roles']],
      ['POST /roles/rol_1/permissions', ['update:roles']],
      ['PATCH /resource-servers/load-data-api', ['update:resource_servers']],
      ['POST /jobs/users-exports', ['read:users']],
    ])('%s without each one of its scopes', async (operation, scopes) => {
      const all = await standIn.issueManagementToken(scopes);
      expect((await call(operation, undefined, all)).status).not.toBe(403);
      for (const missing of scopes) {
        const token = await standIn.issueManagementToken(scopes.filter((scope) => scope !== missing));
        expect(await call(operation, undefined, token)).toMatchObject({ status: 403, body: { errorCode: 'insufficient_scope' } });
      }
    });
  });

  describe('users', () => {
    it.each([
      ['a generated id', {}, /^auth0%7C[0-9a-f]{24}$/],
      ['the requested id', { user_id: 'testaccuser' }, /^auth0%7Ctestaccuser$/],
    ])('are created with %s', async (_, user, id) => {
      expect(await created(user)).toMatch(id);
    });

    it('have their e-mail stored in lower case, and get it as their default name', async () => {
      const id = await created({ email: 'Ada@Example.COM' });
      expect(await call(`GET /users/${id}`)).toMatchObject({ status: 200, body: { email: 'ada@example.com', name: 'ada@example.com', nickname: 'ada' } });
    });

    it.each([
      ['the e-mail', { user_id: 'other', email: 'ADA@example.com' }],
      ['the id', { user_id: 'ada', email: 'other@example.com' }],
    ])('are refused with 409 when another user has %s', async (_, user) => {
      await created({ user_id: 'ada' });
      expect(await call('POST /users', { ...ADA, ...user })).toMatchObject({
        status: 409,
        body: { errorCode: 'auth0_idp_error', message: 'The user already exists.' },
      });
    });

    it('are refused with a different 409 when the tenant has several custom domains', async () => {
      standIn.settings.hasSeveralCustomDomains = true;
      expect(await call('POST /users', ADA)).toMatchObject({ status: 409, body: { errorCode: 'custom_domain_conflict' } });
    });

    it.each([
      ['neither member', {}, 1],
      ['verify_email: false', { verify_email: false }, 0],
      ['email_verified: true', { email_verified: true }, 0],
      ['email_verified: true and verify_email: true', { email_verified: true, verify_email: true }, 1],
    ])('get the right number of verification mails when created with %s', async (_, wishes, count) => {
      const { connection, email, password } = ADA;
      await call('POST /users', { connection, email, password, ...wishes });
      expect(standIn.mails.map(({ kind, to }) => [kind, to])).toEqual(Array(count).fill(['verification', email]));
    });

    it('are found at once by e-mail, which is case-sensitive', async () => {
      standIn.settings.searchDelayMs = Infinity;
      await created();
      const found = async (email: string) => ((await call(`GET /users-by-email?email=${email}`)).body as unknown[]).length;
      expect([await found('ada@example.com'), await found('Ada@example.com')]).toEqual([1, 0]);
    });

    it('are changed only in the given members', async () => {
      const id = await created({ app_metadata: { customer_id: 'acme' } });
      const change = { name: 'Ada Lovelace', app_metadata: { plan: 'gold' } };
      expect(await call(`PATCH /users/${id}`, change)).toMatchObject({
        status: 200,
        body: { name: 'Ada Lovelace', email: 'ada@example.com', app_metadata: { customer_id: 'acme', plan: 'gold' } },
      });
    });

    it('of a social connection cannot be renamed', async () => {
      const [id = ''] = standIn.loadUsers(1, { provider: 'google-oauth2' });
      expect(await call(`PATCH /users/${encodeURIComponent(id)}`, { name: 'Ada' })).toMatchObject({
        status: 400,
        body: { errorCode: 'operation_not_supported' },
      });
    });

    it('are deleted with 204, even if they do not exist', async () => {
      const id = await created();
      const [first, again] = [await call(`DELETE /users/${id}`), await call(`DELETE /users/${id}`)];
      expect([first.status, again.status]).toEqual([204, 204]);
      expect((await call(`GET /users/${id}`)).status).toBe(404);
      await created();
    });

    it('show the requested fields', async () => {
      const id = await created();
      expect((await call(`GET /users/${id}?fields=user_id,email`)).body).toEqual({ user_id: decodeURIComponent(id), email: ADA.email });
      expect(Object.keys((await call(`GET /users/${id}?fields=email&include_fields=false`)).body as object)).not.toContain('email');
    });
  });

  it('mails a link for a new password, or issues a ticket for it, only to existing users', async () => {
    const id = await created();
    const role = await createdRole();
    await call(`POST /users/${id}/roles`, { roles: [role] });
    const ask = async (email: string, client_id = standIn.service.clientId): Promise<number> => {
      const body = new URLSearchParams({ client_id, email, connection: CONNECTION });
      return (await fetch(`${standIn.domain}/dbconnections/change_password`, { method: 'POST', body })).status;
    };
    expect([await ask('nobody@example.com'), await ask(ADA.email)]).toEqual([200, 200]);
    expect(await ask(ADA.email, 'unknown')).toBe(400);
    expect(standIn.mails).toMatchObject([{ kind: 'change-password', to: ADA.email, roles: [role] }]);

    const ticket = await call('POST /tickets/password-change', { user_id: decodeURIComponent(id), mark_email_as_verified: true });
    const url: unknown = expect.stringMatching(/^http:.*ticket=/);
    expect(ticket).toMatchObject({ status: 201, body: { ticket: url } });
    expect((await call('POST /tickets/password-change', { user_id: 'auth0|nobody' })).status).toBe(404);
    expect(standIn.mails).toHaveLength(1);
  });

  describe('roles', () => {
    it('are created with 200, and only once under a name', async () => {
      const first = await call('POST /roles', { name: 'Operator', description: 'Runs it' });
      expect(first).toMatchObject({ status: 200, body: { name: 'Operator', description: 'Runs it' } });
      expect((first.body as { id: string }).id).toMatch(/^rol_[A-Za-z0-9]{16}$/);
      expect(await call('POST /roles', { name: 'Operator' })).toMatchObject({ status: 409, body: { message: 'The role already exists.' } });
    });

    it('are listed in pages of 50, or up to 100 on request, but at most 50 in the public cloud', async () => {
      for (let index = 0; index < 101; index++) await createdRole(`role ${index}`);
      const page = async (query: string) => (await call(`GET /roles?include_totals=true${query}`)).body as { limit: number; total: number; roles: [] };
      const sizes = async () => Promise.all(['', '&per_page=100', '&per_page=100&page=1'].map(async (query) => (await page(query)).roles.length));
      expect(await sizes()).toEqual([50, 100, 1]);
      standIn.settings.largestPage = 50;
      expect(await sizes()).toEqual([25, 50, 50]);
      expect(await page('&per_page=100')).toMatchObject({ limit: 50, total: 101 });
    });

    it("of organizations are listed with the tenant's, and differ in their type", async () => {
      const operator = await createdRole();
      expect((await call(`GET /roles/${operator}`)).body).not.toHaveProperty('type');
      const id = standIn.addOrganizationRole('Member');
      const owner: unknown = expect.stringMatching(/^org_/);
      expect((await call('GET /roles')).body).toMatchObject([
        { name: 'Operator', type: 'tenant' },
        { id, name: 'Member', type: 'organization', owner_id: owner },
      ]);
    });

    it('accept permissions that the API has, each once, and keep those they already have', async () => {
      const id = await createdRole();
      const add = (...names: string[]) =>
        call(`POST /roles/${id}/permissions`, { permissions: names.map((name) => ({ ...PERMISSION, permission_name: name })) });
      expect(await add('read:users')).toMatchObject({ status: 201, body: {} });
      expect((await add('read:users', 'read:roles')).status).toBe(201);
      expect(await add('no:such')).toMatchObject({ status: 400 });
      const { body } = await call(`GET /roles/${id}/permissions`);
      expect((body as { permission_name: string }[]).map((each) => each.permission_name)).toEqual(['read:users', 'read:roles']);
    });

    it("accept no permissions that name an API by its id instead of its identifier", async () => {
      const { body } = await call('GET /resource-servers/load-data-api');
      const permissions = [{ ...PERMISSION, resource_server_identifier: (body as { id: string }).id }];
      expect(await call(`POST /roles/${await createdRole()}/permissions`, { permissions })).toMatchObject({ status: 404 });
    });

    it('are assigned with 204 and no body, even repeatedly', async () => {
      const [user, role] = [await created(), await createdRole()];
      for (let time = 0; time < 2; time++) {
        expect(await call(`POST /users/${user}/roles`, { roles: [role] })).toMatchObject({ status: 204, body: '' });
      }
      expect((await call(`GET /users/${user}/roles`)).body).toEqual([{ id: role, name: 'Operator' }]);
      expect((await call(`DELETE /users/${user}/roles`, { roles: [role] })).status).toBe(204);
      expect((await call(`GET /users/${user}/roles`)).body).toEqual([]);
    });

    it.each([
      ['not-found', 404, 0],
      ['bad-request', 400, 0],
      ['ignored', 204, 1],
    ] as const)('that do not exist are treated as the setting says: %s', async (unknownRole, status, given) => {
      standIn.settings.unknownRole = unknownRole;
      const [user, role] = [await created(), await createdRole()];
      expect((await call(`POST /users/${user}/roles`, { roles: [role, UNKNOWN_ROLE] })).status).toBe(status);
      expect((await call(`GET /users/${user}/roles`)).body).toHaveLength(given);
    });

    it('are limited to 50 for each user', async () => {
      const user = await created();
      const roles: string[] = [];
      for (let index = 0; index < 51; index++) roles.push(await createdRole(`role ${index}`));
      expect((await call(`POST /users/${user}/roles`, { roles: roles.slice(0, 50) })).status).toBe(204);
      expect((await call(`POST /users/${user}/roles`, { roles: roles.slice(50) })).status).toBe(400);
    });

    it('are removed from every user when they are deleted', async () => {
      const [user, role] = [await created(), await createdRole()];
      await call(`POST /users/${user}/roles`, { roles: [role] });
      expect(await call(`DELETE /roles/${role}`)).toMatchObject({ status: 200, body: {} });
      expect((await call(`GET /users/${user}/roles`)).body).toEqual([]);
    });
  });

  describe('resource servers', () => {
    it('have no member `scopes` when they have no scopes', async () => {
      const { status, body } = await call('POST /resource-servers', { identifier: 'https://other/api' });
      expect([status, 'scopes' in (body as object)]).toEqual([201, false]);
    });

    it('are found by id and by identifier', async () => {
      const { body } = await call('POST /resource-servers', { identifier: 'https://other/api' });
      const { id } = body as { id: string };
      expect((await call(`GET /resource-servers/${id}`)).body).toEqual(body);
      expect((await call(`GET /resource-servers/${encodeURIComponent('https://other/api')}`)).body).toEqual(body);
    });

    it('lose the scopes that a change omits, and so do roles', async () => {
      const role = await createdRole();
      await call(`POST /roles/${role}/permissions`, { permissions: [PERMISSION] });
      const changed = await call('PATCH /resource-servers/load-data-api', { scopes: [{ value: 'read:roles' }] });
      expect(changed).toMatchObject({ status: 200, body: { scopes: [{ value: 'read:roles' }] } });
      expect((await call(`GET /roles/${role}/permissions`)).body).toEqual([]);
    });

    it('of Auth0 itself cannot be changed', async () => {
      const own = encodeURIComponent(`${standIn.domain}/api/v2/`);
      expect(await call(`GET /resource-servers/${own}`)).toMatchObject({ status: 200, body: { is_system: true } });
      expect((await call(`PATCH /resource-servers/${own}`, { scopes: [] })).status).toBe(400);
    });
  });
});
