import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Auth0IdentityProvider } from '../../src/identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js';
import { IdentityProvider } from '../../src/identity-management/application/ports/identity-provider.port.js';
import { ProviderDeadline } from '../../src/identity-management/application/provider-deadline.js';
import { ProviderUnavailable } from '../../src/identity-management/domain/errors.js';
import { type Auth0Exchange, type Auth0Fault, type Auth0StandIn, SERVICE_SCOPES } from '../../src/testing/index.js';
import { auth0Options, auth0Variables, operatorToken, startTenant } from '../support/auth0-tenant.js';
import { callManagementApi } from '../support/checked-auth0.js';
import { ALL_OPERATIONS, freshEmail, identityRequests, type Operation } from '../support/identity-requests.js';
import {
  expectKeysToRotate,
  type Fault,
  gatewayOutages,
  LONG_PAGE,
  type Names,
  type Outage,
  outageAnswer,
  outageMatrix,
  outagesWithManyCallers,
  outcome,
  PAGE,
  PATIENCE,
  startWithout,
  untilWell,
} from '../support/provider-outages.js';
import { type RunningService, startService } from '../support/service.js';
import { restoreTime } from '../support/skipped-time.js';

/**
 * How long the service waits for an answer of the tenant. Shorter than the default of almost ten seconds, to save time.
 */
const PROVIDER_TIMEOUT_MS = 2_000;
const TOKEN_SECONDS = 5;
const UNAVAILABLE = outageAnswer(503);
const ERROR = outageAnswer(502);
const TOO_MANY = { statusCode: 429, error: 'Too Many Requests', message: 'Global limit has been reached', errorCode: 'too_many_requests' };
const FORBIDDEN = { statusCode: 403, error: 'Forbidden', message: 'Insufficient scope, expected any of: read:users', errorCode: 'insufficient_scope' };
const UNAUTHORIZED = { statusCode: 401, error: 'Unauthorized', message: 'Invalid token' };
const NOT_FOUND = { statusCode: 404, error: 'Not Found', message: 'The resource server does not exist', errorCode: 'inexistent_resource_server' };
const ROLES = '{"start":0,"limit":100,"total":1,"roles":[{"id":"rol_01234567';
const MANAGEMENT = / \/api\/v2\//;
const TOKEN = 'POST /oauth/token';

describe('the service on an Auth0 tenant that', { timeout: 60_000 }, () => {
  let tenant: Auth0StandIn;
  let service: RunningService;
  const target = { url: '', token: '' };
  const requests = identityRequests(target);
  const { ask, created, known, makeKnown, send } = requests;
  /** The passwords that the service sent to the tenant for new users, by the user's e-mail. */
  const passwords = new Map<string, string>();
  const notePassword = ({ requestBody }: Auth0Exchange): void => {
    const { email, password } = Object(requestBody) as { email?: string; password?: string };
    if (email !== undefined && password !== undefined) passwords.set(email, password);
  };

  /**
   * Starts a service that uses the tenant.
   *
   * @param timeoutMs how long the service waits for an answer of the tenant. Default: that of the service.
   */
  const start = (timeoutMs?: number) => {
    // Healthy results of the provider aren't cached, so that readiness reports a fault at once.
    const provider = new Auth0IdentityProvider({ ...auth0Options(tenant), wellForMs: 0 });
    return startService({ ...auth0Variables(tenant), INGESTION_AUTH: 'required' }, (builder) =>
      builder
        .overrideProvider(ProviderDeadline)
        .useValue(new ProviderDeadline(provider, timeoutMs))
        .overrideProvider(IdentityProvider)
        .useValue(provider),
    );
  };

  beforeAll(async () => {
    // The service's tokens for the tenant's API expire after five seconds, so that each outage also affects the
    // requests for new ones.
    tenant = (await startTenant({ tokenLifetimeSeconds: TOKEN_SECONDS }, notePassword)).standIn;
    service = await start(PROVIDER_TIMEOUT_MS);
    Object.assign(target, { url: service.url, token: await operatorToken(tenant) });
    await makeKnown();
  });
  afterAll(async () => {
    try {
      await service.close();
      await tenant.stop();
    } finally {
      restoreTime();
    }
  });

  /** The users and roles with these e-mails and names that the tenant itself lists. */
  async function find({ emails, roleNames }: Names): Promise<unknown[]> {
    const found = async (operation: string) => (await callManagementApi(tenant, operation)).body as { name: string }[];
    const users = await Promise.all(emails.map((email) => found(`GET /users-by-email?email=${encodeURIComponent(email)}`)));
    const roles = await Promise.all(roleNames.map(async (name) => (await found(`GET /roles?name_filter=${name}`)).filter((role) => role.name === name)));
    return [...users, ...roles].flat();
  }
  const untilGone = ({ email, role_name: roleName }: { email?: string; role_name?: string }) =>
    expect.poll(() => find({ emails: email === undefined ? [] : [email], roleNames: roleName === undefined ? [] : [roleName] }), PATIENCE).toEqual([]);

  const newUser = () => ({ email: freshEmail(), roles: [known.roleId] });
  const newRole = (permissions = ['read:users']) => ({ role_name: randomUUID(), permissions });

  const fail = (fault: Auth0Fault, request: string | RegExp = MANAGEMENT): Fault => ({
    begin: () => { tenant.fail(request, fault, { times: Infinity }); },
    end: () => { tenant.recover(); },
  });
  const respond = (status: number, body?: object | string, request?: string) => fail({ kind: 'answer', status, body }, request);

  const ABSENCE: Fault = { begin: () => tenant.stop(), end: () => tenant.start() };
  const RESETS: Outage = ['resets connections', 503, fail({ kind: 'reset' })];
  const BREAKS_OFF: Outage = ['carries out every request and breaks off each answer', 503, fail({ kind: 'cut-body' })];
  const FAILS: Outage = ['answers 500 with a long page', 503, respond(500, LONG_PAGE)];
  const HTML: Outage = ['answers HTML', 502, respond(200, PAGE)];

  outageMatrix({
    requests,
    find,
    outages: [
      ['refuses connections', 503, ABSENCE],
      RESETS,
      ['does not respond', 503, fail({ kind: 'silence' })],
      ['carries out every request and sends no answer', 503, fail({ kind: 'silence-after' })],
      ['carries out every request and loses each answer', 503, fail({ kind: 'lost-answer' })],
      BREAKS_OFF,
      ['answers 408', 503, respond(408, { statusCode: 408 })],
      ['is throttling', 503, respond(429, TOO_MANY)],
      ['answers 500', 503, respond(500, { statusCode: 500 })],
      FAILS,
      ...gatewayOutages(respond),
      HTML,
      ['answers with truncated JSON', 502, respond(200, ROLES)],
      ['answers with other JSON', 502, respond(200, { a: 1 })],
      ['redirects', 502, respond(302)],
      ['accepts no token', 502, respond(401, UNAUTHORIZED)],
      ['permits nothing', 502, respond(403, FORBIDDEN)],
    ],
  });
  describe('issues tokens of two seconds to the service and', () => {
    const issueTokensOf = (seconds: number): void => {
      tenant.settings.tokenLifetimeSeconds = seconds;
      tenant.expireManagementTokens();
    };
    beforeAll(() => { issueTokensOf(2); });
    afterAll(() => { issueTokensOf(TOKEN_SECONDS); });

    outageMatrix({
      requests,
      find,
      areDelayed: true,
      outages: [
        ['issues no token at the moment', 503, respond(500, { error: 'server_error' }, TOKEN)],
        ['returns a page in place of a token', 502, respond(200, PAGE, TOKEN)],
        ['has another secret for the service', 502, respond(401, { error: 'access_denied', error_description: 'Unauthorized' }, TOKEN)],
      ],
    });
  });

  outagesWithManyCallers({ requests, outages: [['answers after a minute', 503, fail({ kind: 'delay', ms: 60_000 })], RESETS, BREAKS_OFF, FAILS, HTML] });

  it('carries out every request and answers with truncated JSON: 502, and the created user and role are removed', async () => {
    const [user, role] = [newUser(), newRole()];
    tenant.fail('POST /api/v2/users', { kind: 'truncated-json' });
    expect(await outcome(ask('create-user', user))).toEqual(ERROR);
    tenant.fail('POST /api/v2/roles', { kind: 'truncated-json' });
    expect(await outcome(ask('create-role', role))).toEqual(ERROR);
    await untilGone(user);
    await untilGone(role);
  });

  it.each(ALL_OPERATIONS)("no longer accepts the service's token: %s gets one new token and tries again", async (operation) => {
    const before = tenant.count(TOKEN);
    tenant.expireManagementTokens();
    expect((await ask(operation)).status).toBeLessThan(300);
    expect(tenant.count(TOKEN) - before).toBe(1);
  });

  it('refuses new tokens too: the service tries once with a new one, and then no more', async () => {
    // The service's new token for the tenant's API lives for a minute, so that the service doesn't renew it during this
    // test.
    tenant.settings.tokenLifetimeSeconds = 60;
    tenant.expireManagementTokens();
    expect((await ask('roles')).status).toBe(200);
    const counts = () => [tenant.count('GET /api/v2/roles'), tenant.count(TOKEN)] as const;
    const [calls, tokens] = counts();
    tenant.fail('GET /api/v2/roles', { kind: 'answer', status: 401, body: UNAUTHORIZED }, { times: Infinity });
    expect(await outcome(ask('roles'))).toEqual(ERROR);
    expect(counts()).toEqual([calls + 2, tokens + 1]);
    tenant.recover();
    expect((await ask('roles')).status).toBe(200);
    expect(counts()).toEqual([calls + 3, tokens + 1]);
    tenant.settings.tokenLifetimeSeconds = TOKEN_SECONDS;
    tenant.expireManagementTokens();
  });

  it('removed a grant of the service: the log names it, and a new token works again without a restart', async () => {
    const update = () => ask('update-user');
    tenant.grantService(SERVICE_SCOPES.filter((scope) => scope !== 'update:users'));
    try {
      await expect.poll(() => outcome(update()), PATIENCE).toEqual(ERROR);
      expect(service.log.text).toContain('update:users');
    } finally {
      tenant.grantService(SERVICE_SCOPES);
    }
    await expect.poll(async () => (await update()).status, PATIENCE).toBe(200);
  });

  it('lost the API: create-role answers 502, and the other operations work', async () => {
    tenant.fail('GET /api/v2/resource-servers/{id}', { kind: 'answer', status: 404, body: NOT_FOUND }, { times: Infinity });
    expect(await outcome(ask('create-role'))).toEqual(ERROR);
    expect((await ask('roles')).status).toBe(200);
    await expect.poll(async () => (await send('GET', '/health/ready')).status, PATIENCE).toBe(503);
    tenant.recover();
    await untilWell(requests);
  });

  it('has several custom domains: its 409 does not mean that the e-mail is in use', async () => {
    tenant.settings.hasSeveralCustomDomains = true;
    expect(await outcome(ask('create-user'))).toEqual(ERROR);
    tenant.settings.hasSeveralCustomDomains = false;
    expect(service.log.text).toContain('custom_domain_conflict');
  });

  const LOSSES: [string, string, () => readonly ['create-user' | 'create-role', { email?: string; role_name?: string }]][] = [
    ['to the creation of a user', 'POST /api/v2/users', () => ['create-user', newUser()]],
    ['to the creation of a role', 'POST /api/v2/roles', () => ['create-role', newRole()]],
    ['to the permissions of a role', 'POST /api/v2/roles/{id}/permissions', () => ['create-role', newRole()]],
  ];
  it.each(LOSSES)('loses the answer %s: nothing remains, and the name is free', async (_, call, request) => {
    const [operation, fields] = request();
    tenant.fail(call, { kind: 'lost-answer' });
    expect(await outcome(ask(operation, fields))).toEqual(UNAVAILABLE);
    await untilGone(fields);
    await created(operation, fields);
  });

  it.each<[string, string, () => Promise<readonly [Operation, object]>, number]>([
    ['to the roles of a new user', 'POST /api/v2/users/{id}/roles', () => Promise.resolve(['create-user', newUser()]), 201],
    [
      'to the assignment of a role',
      'POST /api/v2/users/{id}/roles',
      async () => ['assign-role', { user_id: await created('create-user', { email: freshEmail(), roles: [] }), role_id: known.roleId }],
      200,
    ],
    ['to the scopes of the API', 'PATCH /api/v2/resource-servers/{id}', () => Promise.resolve(['create-role', newRole([`${randomUUID()}:x`])]), 201],
  ])('loses the answer %s: the service reads the state back and does not repeat the call', async (_, call, request, status) => {
    const [operation, fields] = await request();
    const before = tenant.count(call);
    tenant.fail(call, { kind: 'lost-answer' });
    expect((await ask(operation, { ...fields })).status).toBe(status);
    expect(tenant.count(call) - before).toBe(1);
  });

  it.each<['create-user' | 'create-role', string, () => { email?: string; role_name?: string }]>([
    ['create-user', 'POST /api/v2/users/{id}/roles', newUser],
    ['create-role', 'POST /api/v2/roles/{id}/permissions', newRole],
  ])('fails in the middle of %s: nothing remains, and the name is free', async (operation, call, request) => {
    const fields = request();
    tenant.fail(call, { kind: 'answer', status: 500, body: { statusCode: 500 } }, { times: Infinity });
    expect(await outcome(ask(operation, fields))).toEqual(UNAVAILABLE);
    await untilGone(fields);
    tenant.recover();
    await created(operation, fields);
  });

  it('resumes with the creation of a user still pending: no user remains', async () => {
    const user = newUser();
    const removal = 'DELETE /api/v2/users/{id}';
    const before = tenant.count(removal);
    // Makes the service get a token for the tenant's API that stays valid until the service removes the user.
    tenant.settings.tokenLifetimeSeconds = 60;
    tenant.expireManagementTokens();
    expect((await ask('roles')).status).toBe(200);
    tenant.fail('POST /api/v2/users', { kind: 'delay', ms: PROVIDER_TIMEOUT_MS + 500 });
    expect(await outcome(ask('create-user', user))).toEqual(UNAVAILABLE);
    tenant.settings.tokenLifetimeSeconds = TOKEN_SECONDS;
    await expect.poll(() => tenant.count(removal) - before, PATIENCE).toBe(1);
    await untilGone(user);
  });

  it('breaks off a list: 503 if nothing was sent yet, otherwise the response is cut off', async () => {
    const cut = { kind: 'cut-body' } as const;
    tenant.fail('GET /api/v2/users', cut, { times: Infinity });
    expect(await outcome(ask('users'))).toEqual(UNAVAILABLE);
    tenant.recover();

    tenant.loadUsers(150);
    const provider = new Auth0IdentityProvider(auth0Options(tenant));
    const pages = provider.listUsers({ signal: new AbortController().signal })[Symbol.asyncIterator]();
    expect((await pages.next()).done).toBe(false);
    tenant.fail('GET /api/v2/users', cut, { times: Infinity });
    // The failed request for the next page gives an empty page. The list then makes one more attempt.
    expect((await pages.next()).value).toEqual([]);
    await expect(pages.next()).rejects.toThrow(ProviderUnavailable);
    tenant.recover();
    await provider.onApplicationShutdown();

    tenant.fail('GET /api/v2/users', cut, { skip: 1, times: Infinity });
    await expect(ask('users')).rejects.toThrow('terminated');
    tenant.recover();
  });

  it('answers one search of a list with 503: the list is complete', async () => {
    tenant.loadUsers(150);
    tenant.fail('GET /api/v2/users', { kind: 'answer', status: 503, body: PAGE }, { skip: 1 });
    const { status, body } = await ask('users');
    expect(status).toBe(200);
    expect((JSON.parse(body) as { users: unknown[] }).users.length).toBeGreaterThanOrEqual(150);
  });

  it('answers after a minute: a service with default limits answers 503 to all six operations before a caller gives up after ten seconds', async () => {
    const usual = await start();
    tenant.fail(MANAGEMENT, { kind: 'delay', ms: 60_000 }, { times: Infinity });
    const { ask: askUsual } = identityRequests({ url: usual.url, token: target.token });
    const { GOOD } = requests;
    const answers = ALL_OPERATIONS.map((operation) => outcome(askUsual(operation, operation in GOOD ? GOOD[operation as Operation]() : undefined)));
    expect(await Promise.all(answers)).toEqual(ALL_OPERATIONS.map(() => UNAVAILABLE));
    tenant.recover();
    await usual.close();
  });

  startWithout(ABSENCE, requests, start);

  it('rotates its keys: tokens signed by the old and the new one are accepted, and those of the old one are refused ten minutes after its removal', async () => {
    // A separate service, because the other has already fetched the keys.
    const another = await start();
    try {
      await expectKeysToRotate(
        {
          status: async (token) => (await identityRequests({ url: another.url, token }).ask('roles')).status,
          isPublishedEarly: true,
          rotate: () => {
            tenant.rotateKeys();
            return operatorToken(tenant);
          },
          revoke: () => {
            tenant.revokePreviousKeys();
            return Promise.resolve();
          },
          fetches: () => tenant.count('GET /.well-known/jwks.json'),
        },
        target.token,
      );
    } finally {
      await another.close();
    }
  });

  it('gets a different password for each user: no log or file of the service contains one, a token or the secret', async () => {
    expect(passwords.size).toBeGreaterThan(0);
    expect(new Set(passwords.values()).size).toBe(passwords.size);
    const files = await Promise.all((await service.files('.')).map((file) => readFile(file, 'utf8')));
    const kept = [service.log.text, ...files].join('\n');
    for (const password of passwords.values()) expect(kept).not.toContain(password);
    expect(kept).not.toContain(tenant.service.clientSecret);
    expect(kept).not.toMatch(/eyJ/);
  });
});
