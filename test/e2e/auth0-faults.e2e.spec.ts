import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Auth0IdentityProvider } from '../../src/identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js';
import { IdentityManagementLimits } from '../../src/identity-management/application/identity-management.options.js';
import { IdentityProvider } from '../../src/identity-management/application/ports/identity-provider.port.js';
import { ProviderUnavailable } from '../../src/identity-management/domain/errors.js';
import { type Auth0Fault, type Auth0StandIn, SERVICE_SCOPES } from '../../src/testing/index.js';
import { auth0Options, auth0Variables, operatorToken, startTenant } from '../support/auth0-tenant.js';
import { callManagementApi } from '../support/checked-auth0.js';
import { type RunningService, startService } from '../support/service.js';

const PATIENCE = { timeout: 15_000, interval: 50 };
/** How long the service waits for the tenant: ten seconds are as good, and take longer. */
const PROVIDER_TIMEOUT_MS = 2_000;
const TOKEN_SECONDS = 2;
const BASE = '/idpManagementBackend';
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=Acme';
const ANSWERS = {
  unavailable: { status: 503, body: '{"error":"Identity provider unavailable."}', retryAfter: '10' },
  error: { status: 502, body: '{"error":"Identity provider error."}', retryAfter: null },
} as const;
const MANY_CONNECTIONS = 30;
const TOO_MANY = { statusCode: 429, error: 'Too Many Requests', message: 'Global limit has been reached', errorCode: 'too_many_requests' };
const FORBIDDEN = { statusCode: 403, error: 'Forbidden', message: 'Insufficient scope, expected any of: read:users', errorCode: 'insufficient_scope' };
const UNAUTHORIZED = { statusCode: 401, error: 'Unauthorized', message: 'Invalid token' };
const NOT_FOUND = { statusCode: 404, error: 'Not Found', message: 'The resource server does not exist', errorCode: 'inexistent_resource_server' };
const PAGE = '<!DOCTYPE html><title>Down for maintenance</title>';
const ROLES = '{"start":0,"limit":100,"total":1,"roles":[{"id":"rol_01234567';

describe('the service on an Auth0 tenant that', { timeout: 60_000 }, () => {
  let tenant: Auth0StandIn;
  let service: RunningService;
  let token: string;
  const known = { userId: '', roleId: '' };
  /** Of all users and roles whose creation was asked for. */
  const emails: string[] = [];
  const roleNames: string[] = [];

  const start = () =>
    startService({ ...auth0Variables(tenant), INGESTION_AUTH: 'required' }, (builder) =>
      builder
        .overrideProvider(IdentityManagementLimits)
        .useValue(new IdentityManagementLimits(PROVIDER_TIMEOUT_MS))
        // Readiness tells of a fault at once.
        .overrideProvider(IdentityProvider)
        .useValue(new Auth0IdentityProvider({ ...auth0Options(tenant), wellForMs: 0 })),
    );

  beforeAll(async () => {
    // The service's own tokens live so short that each row sees new ones.
    tenant = (await startTenant({ tokenLifetimeSeconds: TOKEN_SECONDS })).standIn;
    service = await start();
    token = await operatorToken(tenant);
  });
  afterAll(async () => {
    await service.close();
    await tenant.stop();
  });
  beforeEach(async () => {
    known.roleId = await id('create-role', newRole());
    known.userId = await id('create-user', { email: `${randomUUID()}@grid.example`, roles: [] });
    await expectWell();
  });

  async function send(operation: string, fields?: object, to = service): Promise<{ status: number; body: string; retryAfter: string | null }> {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const init = fields ? { method: 'POST', body: JSON.stringify(fields), headers } : { headers };
    const response = await fetch(`${to.url}${BASE}/${operation}`, init);
    return { status: response.status, body: await response.text(), retryAfter: response.headers.get('retry-after') };
  }

  async function id(operation: string, fields: object): Promise<string> {
    const { status, body } = await send(operation, fields);
    expect({ operation, status, body }).toMatchObject({ status: 201 });
    return Object.values(JSON.parse(body) as Record<string, string>)[1] ?? '';
  }

  const newUser = () => {
    const email = `${randomUUID()}@grid.example`;
    emails.push(email);
    return { email, roles: [known.roleId] };
  };
  const newRole = (permissions = ['read:users']) => {
    const name = randomUUID();
    roleNames.push(name);
    return { role_name: name, permissions };
  };
  /** Each of the six operations, as it succeeds on a tenant that is well. */
  const OPERATIONS: [operation: string, fields: () => object | undefined][] = [
    ['create-role', newRole],
    ['assign-role', () => ({ user_id: known.userId, role_id: known.roleId })],
    ['create-user', newUser],
    ['update-user', () => ({ user_id: known.userId, new_name: 'Grace' })],
    ['roles', () => undefined],
    ['users', () => undefined],
  ];
  const sendAll = () => Promise.all(OPERATIONS.map(([operation, fields]) => send(operation, fields())));
  const readiness = async (of = service) => (await fetch(`${of.url}/health/ready`)).status;

  async function expectWell(): Promise<void> {
    await expect.poll(() => readiness(), PATIENCE).toBe(200);
    await expect.poll(async () => (await sendAll()).map(({ status }) => status), PATIENCE).toEqual([201, 200, 201, 200, 200, 200]);
    await expect.poll(() => tenant.connections(), PATIENCE).toBeLessThan(MANY_CONNECTIONS);
  }

  /** The tenant has nobody of those, and nothing, whose creation was answered with an error. */
  async function expectNothingLeft(failed: { emails?: readonly string[]; roleNames?: readonly string[] }): Promise<void> {
    const found = async (operation: string) => (await callManagementApi(tenant, operation)).body as unknown[];
    const left = async () => [
      ...(await Promise.all((failed.emails ?? []).map((email) => found(`GET /users-by-email?email=${encodeURIComponent(email)}`)))).flat(),
      ...(await Promise.all((failed.roleNames ?? []).map((name) => found(`GET /roles?name_filter=${name}`)))).flat(),
    ];
    await expect.poll(left, PATIENCE).toEqual([]);
  }

  const MANAGEMENT = / \/api\/v2\//;
  const TOKEN = 'POST /oauth/token';
  const fail = (fault: Auth0Fault, request: string | RegExp = MANAGEMENT) => ({
    begin: () => { tenant.fail(request, fault, { times: Infinity }); },
    end: () => { tenant.recover(); },
  });
  const respond = (status: number, body?: object | string, request?: string) => fail({ kind: 'answer', status, body }, request);

  const FAULTS: [string, keyof typeof ANSWERS, { begin: () => unknown; end: () => unknown }][] = [
    ['refuses connections', 'unavailable', { begin: () => tenant.stop(), end: () => tenant.start() }],
    ['resets connections', 'unavailable', fail({ kind: 'reset' })],
    ['is silent', 'unavailable', fail({ kind: 'silence' })],
    ['is slow', 'unavailable', fail({ kind: 'delay', ms: PROVIDER_TIMEOUT_MS + 500 })],
    ['does all and answers nothing', 'unavailable', fail({ kind: 'silence-after' })],
    ['does all and loses each answer', 'unavailable', fail({ kind: 'lost-answer' })],
    ['does all and breaks off in each answer', 'unavailable', fail({ kind: 'cut-body' })],
    ['is throttling', 'unavailable', respond(429, TOO_MANY)],
    ['answers 500', 'unavailable', respond(500, { statusCode: 500 })],
    ['is behind a gateway that answers 502', 'unavailable', respond(502, PAGE)],
    ['is behind a gateway that answers 503', 'unavailable', respond(503, PAGE)],
    ['is behind a gateway that answers 504', 'unavailable', respond(504, PAGE)],
    ['gives no token now', 'unavailable', respond(500, { error: 'server_error' }, TOKEN)],
    ['gives a page in place of a token', 'error', respond(200, PAGE, TOKEN)],
    ['got another secret for the service', 'error', respond(401, { error: 'access_denied', error_description: 'Unauthorized' }, TOKEN)],
    ['answers HTML', 'error', respond(200, PAGE)],
    ['answers HTML with 404', 'error', respond(404, PAGE)],
    ['answers JSON that ends early', 'error', respond(200, ROLES)],
    ['answers another JSON', 'error', respond(200, { a: 1 })],
    ['redirects', 'error', respond(302)],
    ['takes no token', 'error', respond(401, UNAUTHORIZED)],
    ['permits nothing', 'error', respond(403, FORBIDDEN)],
  ];

  it.each(FAULTS)('%s: "provider %s" to all six, uploads go on, and all is well again by itself', async (_, kind, fault) => {
    await fault.begin();
    const failed = { emails: emails.length, roleNames: roleNames.length };
    try {
      // The token that it has may hold for a second.
      await expect.poll(async () => (await send('roles')).status, PATIENCE).toBe(ANSWERS[kind].status);
      const unready = expect.poll(() => readiness(), PATIENCE).toBe(503);
      const [answers] = await Promise.all([sendAll(), unready]);
      for (const answer of answers) expect(answer).toEqual(ANSWERS[kind]);
      const upload = await fetch(service.url + UPLOAD, { method: 'POST', body: 'a file', headers: { authorization: `Bearer ${token}` } });
      expect(upload.status).toBe(200);
    } finally {
      await fault.end();
    }
    const left = { emails: emails.slice(failed.emails), roleNames: roleNames.slice(failed.roleNames) };
    await expectWell();
    await expectNothingLeft(left);
  });

  it('does all and answers JSON that ends early: "provider error", and what was created is removed', async () => {
    const [user, role] = [newUser(), newRole()];
    tenant.fail('POST /api/v2/users', { kind: 'truncated-json' });
    expect(await send('create-user', user)).toEqual(ANSWERS.error);
    tenant.fail('POST /api/v2/roles', { kind: 'truncated-json' });
    expect(await send('create-role', role)).toEqual(ANSWERS.error);
    await expectNothingLeft({ emails: [user.email], roleNames: [role.role_name] });
  });

  it.each(OPERATIONS)('no longer takes the token of the service: %s gets a new one, and asks again', async (operation, fields) => {
    const before = tenant.count(TOKEN);
    tenant.expireManagementTokens();
    expect((await send(operation, fields())).status).toBeLessThan(300);
    expect(tenant.count(TOKEN) - before).toBe(1);
  });

  it('lost a grant for the service: the log says which, and it works again with a new token, without a restart', async () => {
    tenant.grantService(SERVICE_SCOPES.filter((scope) => scope !== 'update:users'));
    try {
      await expect.poll(() => send('update-user', { user_id: known.userId, new_name: 'Ada' }), PATIENCE).toEqual(ANSWERS.error);
      expect(service.log.text).toContain('update:users');
    } finally {
      tenant.grantService(SERVICE_SCOPES);
    }
    await expect.poll(async () => (await send('update-user', { user_id: known.userId, new_name: 'Ada' })).status, PATIENCE).toBe(200);
  });

  it('lost the API: create-role is "provider error", the rest works', async () => {
    tenant.fail('GET /api/v2/resource-servers/{id}', { kind: 'answer', status: 404, body: NOT_FOUND }, { times: Infinity });
    expect(await send('create-role', newRole())).toEqual(ANSWERS.error);
    expect((await send('roles')).status).toBe(200);
    await expect.poll(() => readiness(), PATIENCE).toBe(503);
    tenant.recover();
  });

  it('has several custom domains: that is no e-mail in use', async () => {
    tenant.settings.hasSeveralCustomDomains = true;
    expect(await send('create-user', newUser())).toEqual(ANSWERS.error);
    tenant.settings.hasSeveralCustomDomains = false;
    expect(service.log.text).toContain('custom_domain_conflict');
  });

  const LOSSES: [string, string, () => readonly ['create-user' | 'create-role', { email?: string; role_name?: string }]][] = [
    ['that a user is created', 'POST /api/v2/users', () => ['create-user', newUser()]],
    ['that a role is created', 'POST /api/v2/roles', () => ['create-role', newRole()]],
    ['that a role has its permissions', 'POST /api/v2/roles/{id}/permissions', () => ['create-role', newRole()]],
  ];
  it.each(LOSSES)('loses the answer %s: nothing is left, and the name is free', async (_, call, request) => {
    const [operation, fields] = request();
    tenant.fail(call, { kind: 'lost-answer' });
    expect(await send(operation, fields)).toEqual(ANSWERS.unavailable);
    await expectNothingLeft({ emails: fields.email === undefined ? [] : [fields.email], roleNames: fields.role_name === undefined ? [] : [fields.role_name] });
    await id(operation, fields);
  });

  it.each<[string, string, () => readonly [string, object], number]>([
    ['that a user has their roles', 'POST /api/v2/users/{id}/roles', () => ['create-user', newUser()], 201],
    ['that a user has a role', 'POST /api/v2/users/{id}/roles', () => ['assign-role', { user_id: known.userId, role_id: known.roleId }], 200],
    ['that the API has its scopes', 'PATCH /api/v2/resource-servers/{id}', () => ['create-role', newRole([`${randomUUID()}:x`])], 201],
  ])('loses the answer %s: it is read back, and no more is done', async (_, call, request, status) => {
    const before = tenant.count(call);
    tenant.fail(call, { kind: 'lost-answer' });
    expect((await send(...request())).status).toBe(status);
    expect(tenant.count(call) - before).toBe(1);
  });

  it.each<[string, string, () => { email?: string; role_name?: string }]>([
    ['create-user', 'POST /api/v2/users/{id}/roles', newUser],
    ['create-role', 'POST /api/v2/roles/{id}/permissions', newRole],
  ])('does half of %s: nothing is left, and the name is free', async (operation, call, fields) => {
    const request = fields();
    tenant.fail(call, { kind: 'answer', status: 500, body: { statusCode: 500 } }, { times: Infinity });
    expect(await send(operation, request)).toEqual(ANSWERS.unavailable);
    await expectNothingLeft({ emails: [request.email ?? ''], roleNames: [request.role_name ?? 'none'] });
    tenant.recover();
    await id(operation, request);
  });

  it('has the creation of a user before it when it goes on: nobody is left', async () => {
    const user = newUser();
    const removal = 'DELETE /api/v2/users/{id}';
    const before = tenant.count(removal);
    // The token holds until then.
    tenant.settings.tokenLifetimeSeconds = 60;
    tenant.expireManagementTokens();
    expect((await send('roles')).status).toBe(200);
    tenant.fail('POST /api/v2/users', { kind: 'delay', ms: PROVIDER_TIMEOUT_MS + 500 });
    expect(await send('create-user', user)).toEqual(ANSWERS.unavailable);
    tenant.settings.tokenLifetimeSeconds = TOKEN_SECONDS;
    await expect.poll(() => tenant.count(removal) - before, PATIENCE).toBe(1);
    await expectNothingLeft({ emails: [user.email] });
  });

  it('breaks off in a list: what was begun ends in an error', async () => {
    const cut = { kind: 'cut-body' } as const;
    tenant.fail('GET /api/v2/users', cut, { times: Infinity });
    expect(await send('users')).toEqual(ANSWERS.unavailable);
    tenant.recover();

    tenant.loadUsers(150);
    const provider = new Auth0IdentityProvider(auth0Options(tenant));
    const pages = provider.listUsers({ signal: new AbortController().signal })[Symbol.asyncIterator]();
    expect((await pages.next()).done).toBe(false);
    tenant.fail('GET /api/v2/users', cut, { times: Infinity });
    // An empty one, and then it asks once more.
    expect((await pages.next()).value).toEqual([]);
    await expect(pages.next()).rejects.toThrow(ProviderUnavailable);
    tenant.recover();
    await provider.onApplicationShutdown();
  });

  it('answers one search in a list with 503: the list is whole', async () => {
    tenant.loadUsers(150);
    tenant.fail('GET /api/v2/users', { kind: 'answer', status: 503, body: PAGE }, { skip: 1 });
    const { status, body } = await send('users');
    expect(status).toBe(200);
    expect((JSON.parse(body) as { users: unknown[] }).users.length).toBeGreaterThanOrEqual(150);
  });

  it('is not there at boot: the service is live, and well once it is there', async () => {
    await tenant.stop();
    const late = await start();
    try {
      expect((await fetch(`${late.url}/health/live`)).status).toBe(200);
      expect(await readiness(late)).toBe(503);
      expect((await send('roles', undefined, late)).status).toBe(503);
      await tenant.start();
      await expect.poll(async () => (await send('roles', undefined, late)).status, PATIENCE).toBe(200);
      await expect.poll(() => readiness(late), PATIENCE).toBe(200);
    } finally {
      await late.close();
    }
  });

  it('has new keys: old tokens are believed as long as their key is in the set, new ones at once or after a while', async () => {
    tenant.rotateKeys();
    const old = token;
    token = await operatorToken(tenant);
    await expect.poll(async () => (await send('roles')).status, PATIENCE).toBe(200);
    const withOld = await fetch(`${service.url}${BASE}/roles`, { headers: { authorization: `Bearer ${old}` } });
    expect(withOld.status).toBe(200);
  });
});
