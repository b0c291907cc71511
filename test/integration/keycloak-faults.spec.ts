import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KeycloakIdentityProvider } from '../../src/identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
import { IdentityProvider } from '../../src/identity-management/application/ports/identity-provider.port.js';
import { ProviderDeadline } from '../../src/identity-management/application/provider-deadline.js';
import { ProviderUnavailable } from '../../src/identity-management/domain/errors.js';
import { type FaultProxy, type ProxiedRequest, startFaultProxy } from '../servers/fault-proxy.mjs';
import { isKeycloakAvailable, type Keycloak, startKeycloak } from '../servers/keycloak.mjs';
import { ALL_OPERATIONS, fresh, freshEmail, identityRequests, type Operation } from '../support/identity-requests.js';
import { keycloakOptions, keycloakPermissionsOf, keycloakToken, keycloakVariables, testRealm } from '../support/keycloak-realm.js';
import {
  expectKeysToRotate,
  type Fault,
  gatewayOutages,
  LONG_PAGE,
  type Outage,
  outageAnswer,
  outageMatrix,
  outagesWithManyCallers,
  outcome,
  PAGE,
  PATIENCE,
  startWithout,
} from '../support/provider-outages.js';
import { type RunningService, startService } from '../support/service.js';
import { restoreTime } from '../support/skipped-time.js';

const START_MS = 240_000;
/**
 * How long the service waits for an answer of Keycloak. Shorter than the default of almost ten seconds, to save time.
 */
const PROVIDER_TIMEOUT_MS = 2_000;
const UNAVAILABLE = outageAnswer(503);
const ROLES = '[{"id":"4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10","na';

const realm = testRealm();
const { clientId, clientSecret } = keycloakOptions('');

describe.runIf(isKeycloakAvailable())('the service on a Keycloak that', { timeout: 60_000 }, () => {
  let server: Keycloak;
  let proxy: FaultProxy;
  let service: RunningService;
  const target = { url: '', token: '' };
  const requests = identityRequests(target);
  const { ask, created, known, makeKnown, send } = requests;

  /**
   * Starts a service that uses the realm.
   *
   * @param timeoutMs how long the service waits for an answer of Keycloak. Default: that of the service.
   */
  const start = (timeoutMs?: number) => {
    const variables = { ...keycloakVariables(proxy.endpoint), OIDC_ISSUER: `${server.endpoint}/realms/${realm.realm}`, INGESTION_AUTH: 'required' };
    const deadline = { inject: [IdentityProvider], factory: (provider: IdentityProvider) => new ProviderDeadline(provider, timeoutMs) };
    return startService(variables, (builder) => builder.overrideProvider(ProviderDeadline).useFactory(deadline));
  };

  beforeAll(async () => {
    const clients = realm.clients.map((client) => ({ ...client, attributes: { 'access.token.lifespan': '3600' } }));
    server = await startKeycloak({ realm: { ...realm, clients } });
    // The proxy closes idle connections after 5 s. Connections that wait for an answer stay open.
    proxy = await startFaultProxy(server.endpoint, { keepAliveMs: 5_000 });
    service = await start(PROVIDER_TIMEOUT_MS);
    Object.assign(target, { url: service.url, token: await keycloakToken(server) });
    await makeKnown();
  }, START_MS);
  afterAll(async () => {
    try {
      expect(service.log.text).not.toMatch(/service-secret|eyJ/);
      await service.close();
    } finally {
      restoreTime();
    }
    await proxy.close();
    await server.stop();
  });

  /** The users and roles with these e-mails and names that Keycloak itself lists. */
  const find = async ({ emails, roleNames = [] }: { emails: readonly string[]; roleNames?: readonly string[] }) => {
    const users = await Promise.all(emails.map((email) => server.administer('GET', `/users?exact=true&email=${encodeURIComponent(email)}`)));
    const roles = (await server.administer('GET', '/roles')) as { name: string }[];
    return [...users.flat(), ...roles.filter(({ name }) => roleNames.includes(name))];
  };
  const untilThere = (email: string) => expect.poll(() => find({ emails: [email] }), PATIENCE).toHaveLength(1);
  const untilGone = ({ email }: { email: string }) => expect.poll(() => find({ emails: [email] }), PATIENCE).toEqual([]);

  const newUser = () => ({ email: freshEmail(), roles: [known.roleId] });

  const isAdministration = ({ url }: ProxiedRequest) => url.startsWith('/admin/');
  const isTokenRequest = ({ url }: ProxiedRequest) => url.endsWith('/token');
  const isGift = ({ method, url }: ProxiedRequest) => method === 'POST' && url.endsWith('/role-mappings/realm');
  const isCreation = ({ method, url }: ProxiedRequest) => method === 'POST' && url.endsWith('/users');
  const isCreationOfRole = ({ method, url }: ProxiedRequest) => method === 'POST' && url === `/admin/realms/${realm.realm}/roles`;
  const isRemoval = ({ method }: ProxiedRequest) => method === 'DELETE';
  // The proxied requests for the lists of users that the operation `users` reads, without the look-ups of users that
  // outages left behind.
  const isListOfUsers = ({ url }: ProxiedRequest) => url.includes('/users?briefRepresentation=');
  const isListOfRoles = ({ url }: ProxiedRequest) => url.includes('/roles?');
  const count = (of: (request: ProxiedRequest) => boolean) => proxy.requests.filter(of).length;

  const changeClient = async (members: object) => {
    const [client] = (await server.administer('GET', `/clients?clientId=${clientId}`)) as { id: string }[];
    await server.administer('PUT', `/clients/${client?.id ?? ''}`, { clientId, ...members });
  };
  const setSecret = (secret: string) => changeClient({ secret });
  /** Sets the lifetime of the service's tokens for Keycloak, and makes the service get a new token. */
  const setTokenLifespan = async (seconds: number) => {
    await changeClient({ attributes: { 'access.token.lifespan': String(seconds) } });
    const refused = proxy.answer(401, '{"error":"HTTP 401 Unauthorized"}', { to: isListOfRoles });
    expect((await ask('roles')).status).toBe(200);
    await refused;
  };
  const setEnabled = (enabled: boolean) => server.administer('PUT', '', { enabled });

  const proxied = (begin: () => unknown): Fault => ({ begin: () => { void begin(); }, end: () => proxy.pass() });
  const respond = (status: number, body: string, to = isAdministration) => proxied(() => { proxy.respond(status, body, { to }); });
  const cut = (afterBytes: number) => proxied(() => proxy.cutAnswer({ to: isAdministration, afterBytes, times: Infinity }));

  const ABSENCE: Fault = { begin: () => proxy.refuse(), end: () => proxy.pass() };
  const RESETS: Outage = ['resets connections', 503, proxied(() => { proxy.reset(); })];
  const LATE: Outage = ['carries out every request and answers after a minute', 503, proxied(() => { proxy.delay(60_000, { to: isAdministration }); })];
  const BREAKS_OFF: Outage = ['carries out every request and breaks off each answer', 503, cut(1)];
  const FAILS: Outage = ['answers 500 with a long page', 503, respond(500, LONG_PAGE)];
  const HTML: Outage = ['answers HTML', 502, respond(200, PAGE)];

  describe('issues tokens of two seconds to the service and', () => {
    // A token with a lifetime of two seconds is used by the service for at most one second.
    beforeAll(() => setTokenLifespan(2));
    afterAll(() => setTokenLifespan(3_600));

    outageMatrix({
      requests,
      find,
      areDelayed: true,
      outages: [
        ['issues no token at the moment', 503, respond(500, '{"error":"unknown_error"}', isTokenRequest)],
        ['returns a page in place of a token', 502, respond(200, PAGE, isTokenRequest)],
        ['does not answer requests for tokens', 503, proxied(() => { proxy.hold({ to: isTokenRequest }); })],
        ['has another secret for the service', 502, { begin: () => setSecret('another'), end: () => setSecret(clientSecret) }],
        ['has the realm disabled', 502, { begin: () => setEnabled(false), end: () => setEnabled(true) }],
      ],
    });
  });

  describe('has issued a token of one hour to the service and', () => {
    outageMatrix({
      requests,
      find,
      outages: [
        ['refuses connections', 503, ABSENCE],
        RESETS,
        ['is stopped', 503, { begin: () => server.pause(), end: () => { server.resume(); } }],
        ['carries out every request and sends no answer', 503, proxied(() => { proxy.hold({ to: isAdministration }); })],
        ['carries out every request and loses each answer', 503, cut(0)],
        BREAKS_OFF,
        ['answers 408', 503, respond(408, '{"error":"timeout"}')],
        ['is throttling', 503, respond(429, '{"error":"too many"}')],
        ['answers 500', 503, respond(500, '{"error":"unknown_error"}')],
        FAILS,
        ...gatewayOutages(respond),
        ['has lost the realm', 502, respond(404, '{"error":"Realm not found."}')],
        HTML,
        ['answers with truncated JSON', 502, respond(200, ROLES)],
        ['answers with other JSON', 502, respond(200, '{"a":1}')],
        ['redirects', 502, respond(302, '')],
        ['accepts no token', 502, respond(401, '{"error":"HTTP 401 Unauthorized"}')],
        ['permits nothing', 502, respond(403, '{"error":"HTTP 403 Forbidden"}')],
      ],
    });
    outagesWithManyCallers({ requests, outages: [RESETS, LATE, BREAKS_OFF, FAILS, HTML] });

    it('has few connections after that, when there are no more calls', async () => {
      // Some connections to Keycloak may remain, for look-ups of users that outages left behind.
      await expect.poll(() => proxy.connections(), PATIENCE).toBeLessThan(5);
    });
  });

  it.each<[(typeof ALL_OPERATIONS)[number], (request: ProxiedRequest) => boolean]>([
    ['assign-role', isGift],
    ['create-role', isCreationOfRole],
    ['create-user', isCreation],
    ['update-user', ({ method }) => method === 'PUT'],
    ['roles', isListOfRoles],
    ['users', isListOfUsers],
  ])("no longer accepts the service's token: %s gets one new token and tries again", async (operation, to) => {
    const before = count(isTokenRequest);
    const refused = proxy.answer(401, '{"error":"HTTP 401 Unauthorized"}', { to });
    expect((await ask(operation)).status).toBeLessThan(300);
    await refused;
    expect(count(isTokenRequest) - before).toBe(1);
  });

  it('refuses new tokens too: the service tries once with a new one, and then no more', async () => {
    expect((await ask('roles')).status).toBe(200);
    const counts = () => [count(isListOfRoles), count(isTokenRequest)] as const;
    proxy.respond(401, '{"error":"HTTP 401 Unauthorized"}', { to: isListOfRoles });
    const [calls, tokens] = counts();
    expect(await outcome(ask('roles'))).toEqual(outageAnswer(502));
    expect(counts()).toEqual([calls + 2, tokens + 1]);
    await proxy.pass();
  });

  it.each<[string, (email: string) => Promise<unknown>]>([
    ['loses the answer to the creation of a user', () => proxy.cutAnswer({ to: isCreation })],
    ['loses the answer to the roles of a new user twice', () => proxy.cutAnswer({ to: isGift, times: 2 })],
    [
      'creates a user and does not answer',
      (email) => {
        proxy.hold({ to: isCreation });
        return untilThere(email);
      },
    ],
  ])('%s: no user remains, and the e-mail is free', async (_, isDone) => {
    const user = newUser();
    const [answer] = await Promise.all([outcome(ask('create-user', user)), isDone(user.email)]);
    expect(answer).toEqual(UNAVAILABLE);
    await proxy.pass();
    await untilGone(user);
    await created('create-user', user);
  });

  const newRole = () => ({ role_name: fresh(), permissions: ['read:roles', 'read:users'] });
  const isReadingOfRole = ({ method, url }: ProxiedRequest) => method === 'GET' && url.startsWith(`/admin/realms/${realm.realm}/roles/`);
  const untilFree = ({ role_name: name }: { role_name: string }) => expect.poll(() => find({ emails: [], roleNames: [name] }), PATIENCE).toEqual([]);

  it.each<[string, () => unknown]>([
    ['loses the answer to the creation of a role', () => proxy.cutAnswer({ to: isCreationOfRole })],
    ['creates a role and does not answer', () => { proxy.hold({ to: isCreationOfRole }); }],
  ])('%s: no role remains, and the creation is not repeated', async (_, begin) => {
    const role = newRole();
    const before = count(isCreationOfRole);
    void begin();
    expect(await outcome(ask('create-role', role))).toEqual(UNAVAILABLE);
    expect(count(isCreationOfRole) - before).toBe(1);
    await proxy.pass();
    await untilFree(role);
    await created('create-role', role);
  });

  const respondToReading = (status: number, body: string) => () => { proxy.respond(status, body, { to: isReadingOfRole }); };
  const UNREADABLE: readonly (readonly [string, 502 | 503, () => unknown])[] = [
    ['a lost answer', 503, () => proxy.cutAnswer({ to: isReadingOfRole, times: Infinity })],
    ['an answer that is cut off', 503, () => proxy.cutAnswer({ to: isReadingOfRole, afterBytes: 20, times: Infinity })],
    ['no answer', 503, () => { proxy.hold({ to: isReadingOfRole }); }],
    ['500', 503, respondToReading(500, '{"error":"unknown_error"}')],
    ['429', 503, respondToReading(429, '{"error":"too many"}')],
    ['408', 503, respondToReading(408, '{}')],
    ['401', 502, respondToReading(401, '{"error":"HTTP 401 Unauthorized"}')],
    ['403', 502, respondToReading(403, '{"error":"HTTP 403 Forbidden"}')],
    ['404 for something else', 502, respondToReading(404, '{"error":"Realm not found."}')],
    ['HTML', 502, respondToReading(200, PAGE)],
    ['truncated JSON', 502, respondToReading(200, '{"id":"4b1b')],
    ['other JSON', 502, respondToReading(200, '{"a":1}')],
    ['a redirect', 502, respondToReading(302, '')],
  ];

  it.each(UNREADABLE)('creates a role and then answers with %s (%i): the role is removed once it can be read, and the same request succeeds', async (_, status, begin) => {
    const role = newRole();
    void begin();
    expect((await ask('create-role', role)).status).toBe(status);
    // The role exists in Keycloak. But the service can't read it yet, so it can't know that it created this role, and
    // doesn't remove it.
    expect(await find({ emails: [], roleNames: [role.role_name] })).toHaveLength(1);
    expect((await ask('create-role', role)).status).toBe(status);
    await proxy.pass();
    const roleId = await created('create-role', role);
    const userId = await created('create-user', { email: freshEmail(), roles: [roleId] });
    expect((await keycloakPermissionsOf(server, userId)).sort()).toEqual(role.permissions);
    expect((await ask('create-role', role)).status).toBe(400);
  });

  it('creates a role that others replace by their own before it is read: their role remains', async () => {
    const role = newRole();
    void proxy.cutAnswer({ to: isReadingOfRole, times: Infinity });
    expect((await ask('create-role', role)).status).toBe(503);
    await server.administer('DELETE', `/roles/${role.role_name}`);
    await server.administer('POST', '/roles', { name: role.role_name });
    await proxy.pass();
    expect((await ask('create-role', role)).status).toBe(400);
    expect(await find({ emails: [], roleNames: [role.role_name] })).toHaveLength(1);
  });

  it('loses the answer to the creation of a user whom others replace before the look-up: their user remains', async () => {
    const user = newUser();
    const isLookUp = ({ method, url }: ProxiedRequest) => method === 'GET' && url.includes('/users?exact=true');
    void proxy.cutAnswer({ to: (request) => isCreation(request) || isLookUp(request), times: Infinity });
    expect(await outcome(ask('create-user', user))).toEqual(UNAVAILABLE);
    const [{ id } = { id: '' }] = (await find({ emails: [user.email] })) as { id: string }[];
    await server.administer('DELETE', `/users/${id}`);
    await server.administer('POST', '/users', { username: user.email, email: user.email, enabled: true });
    await proxy.pass();
    expect((await ask('create-user', user)).status).toBe(400);
    expect(await find({ emails: [user.email] })).toHaveLength(1);
  });

  it('does not remove a new user: the e-mail is still free for the same request', async () => {
    const user = newUser();
    proxy.respond(500, '{}', { to: (request) => isGift(request) || isRemoval(request) });
    expect((await ask('create-user', user)).status).toBe(503);
    expect((await ask('create-user', user)).status).toBe(503);
    await proxy.pass();
    await created('create-user', user);
  });

  it('does not return the id of a created user: no user remains, and the e-mail is free', async () => {
    const user = newUser();
    proxy.mute('location', { to: isCreation });
    expect(await outcome(ask('create-user', user))).toEqual(outageAnswer(502));
    await untilGone(user);
    await proxy.pass();
    await created('create-user', user);
  });

  const COLLISION = '{"errorMessage":"Could not add user role mappings!"}';
  it('reports a collision of two calls: the role is assigned at the second attempt', async () => {
    const userId = await created('create-user', { email: freshEmail(), roles: [] });
    const collided = proxy.answer(400, COLLISION, { to: isGift });
    expect((await ask('assign-role', { user_id: userId, role_id: known.roleId })).status).toBe(200);
    await collided;
    expect(await keycloakPermissionsOf(server, userId)).toEqual(['read:roles']);
  });

  it('repeatedly refuses a role that the user does not have: 503', async () => {
    const userId = await created('create-user', { email: freshEmail(), roles: [] });
    proxy.respond(400, COLLISION, { to: isGift });
    expect(await outcome(ask('assign-role', { user_id: userId, role_id: known.roleId }))).toEqual(UNAVAILABLE);
    await proxy.pass();
    expect(await keycloakPermissionsOf(server, userId)).toEqual([]);
  });

  it.each<[(typeof ALL_OPERATIONS)[number], (request: ProxiedRequest) => boolean]>([
    ['assign-role', isGift],
    ['update-user', ({ method }) => method === 'PUT'],
  ])('loses the answer to %s once: the call is repeated and succeeds', async (operation, to) => {
    const before = count(to);
    void proxy.cutAnswer({ to });
    expect((await ask(operation)).status).toBe(200);
    expect(count(to) - before).toBe(2);
  });

  it('repeatedly refuses a role that the user has: the service reads it back and answers 200', async () => {
    expect((await ask('assign-role')).status).toBe(200);
    proxy.respond(400, COLLISION, { to: isGift });
    expect((await ask('assign-role')).status).toBe(200);
    await proxy.pass();
  });

  it('creates users but assigns no roles: no user remains, and the e-mail is free', async () => {
    const user = newUser();
    proxy.respond(500, '{}', { to: isGift });
    expect(await outcome(ask('create-user', user))).toEqual(UNAVAILABLE);
    await untilGone(user);
    await proxy.pass();
    await created('create-user', user);
  });

  it('creates a user after the service has given up: no user remains', async () => {
    const user = newUser();
    const before = count(isRemoval);
    proxy.postpone({ to: isCreation });
    expect(await outcome(ask('create-user', user))).toEqual(UNAVAILABLE);
    expect(count(isRemoval) - before).toBe(0);
    await proxy.pass();
    await expect.poll(() => count(isRemoval) - before, PATIENCE).toBe(1);
    await untilGone(user);
  });

  it('breaks off a list: 503 if nothing was sent yet, otherwise the response is cut off', async () => {
    void proxy.cutAnswer({ to: isListOfUsers, afterBytes: 20, times: 2 });
    expect(await outcome(ask('users'))).toEqual(UNAVAILABLE);

    const provider = new KeycloakIdentityProvider({ ...keycloakOptions(proxy.endpoint), usersPerPage: 2 });
    const pages = provider.listUsers({ signal: new AbortController().signal })[Symbol.asyncIterator]();
    expect((await pages.next()).done).toBe(false);
    void proxy.cutAnswer({ to: isListOfUsers, afterBytes: 20, times: 2 });
    await expect(pages.next()).rejects.toThrow(ProviderUnavailable);
    await provider.onApplicationShutdown();
  });

  it('takes too long for all roles in one answer: they are listed page by page, each once', async () => {
    const moreThanOnePage: string[] = [];
    while (moreThanOnePage.length < 101) moreThanOnePage.push(await created('create-role', { role_name: fresh(), permissions: ['read:users'] }));
    proxy.hold({ to: ({ url }) => url.includes('/roles?') && !url.includes('first=') });
    const provider = new KeycloakIdentityProvider({ ...keycloakOptions(proxy.endpoint), allRolesTimeoutMs: 100 });
    const listed: string[] = [];
    for await (const page of provider.listRoles({ signal: new AbortController().signal })) listed.push(...page.map(({ roleId }) => roleId));
    await proxy.pass();
    expect(listed).toEqual(expect.arrayContaining(moreThanOnePage));
    expect(new Set(listed).size).toBe(listed.length);
  });

  it('answers after a minute: a service with default limits answers 503 to all six operations before a caller gives up after ten seconds', async () => {
    const usual = await start();
    proxy.delay(60_000, { to: isAdministration });
    const { ask: askUsual } = identityRequests({ url: usual.url, token: target.token });
    const { GOOD } = requests;
    const answers = ALL_OPERATIONS.map((operation) => outcome(askUsual(operation, operation in GOOD ? GOOD[operation as Operation]() : undefined)));
    expect(await Promise.all(answers)).toEqual(ALL_OPERATIONS.map(() => UNAVAILABLE));
    await proxy.pass();
    await usual.close();
  });

  startWithout(ABSENCE, requests, start);

  it('rotates its keys: tokens signed by the old and the new one are accepted, and those of the old one are refused ten minutes after its removal', async () => {
    const type = 'org.keycloak.keys.KeyProvider';
    const setKeyEnabled = async (named: string, enabled: boolean) => {
      const keys = (await server.administer('GET', `/components?type=${type}`)) as { id: string; name: string; config: object }[];
      const key = keys.find(({ name }) => name === named);
      await server.administer('PUT', `/components/${key?.id ?? ''}`, { ...key, config: { ...key?.config, enabled: [String(enabled)] } });
    };
    // A separate service, because the other has already fetched the keys.
    const another = await start();
    try {
      await expectKeysToRotate(
        {
          status: async (token) => (await identityRequests({ url: another.url, token }).ask('roles')).status,
          isPublishedEarly: false,
          rotate: async () => {
            await server.administer('POST', '/components', { name: 'new', providerId: 'rsa-generated', providerType: type, config: { priority: ['200'] } });
            return await keycloakToken(server);
          },
          revoke: () => setKeyEnabled('rsa-generated', false),
          fetches: () => count(({ url }) => url.endsWith('/certs')),
        },
        target.token,
      );
    } finally {
      await setKeyEnabled('rsa-generated', true);
      await setKeyEnabled('new', false);
      await another.close();
    }
  });

  it('is killed and returns with new keys: old tokens are refused, and new ones accepted', async () => {
    await server.kill();
    expect(await Promise.all(ALL_OPERATIONS.map((operation) => outcome(ask(operation))))).toEqual(ALL_OPERATIONS.map(() => UNAVAILABLE));
    await server.restart();
    const old = target.token;
    target.token = await keycloakToken(server);
    // A token that is signed with an unknown key makes the service fetch all keys, at most once every five seconds.
    await expect.poll(async () => (await ask('roles')).status, PATIENCE).toBe(200);
    expect((await send('GET', '/health/ready')).status).toBe(200);
    target.token = old;
    expect((await ask('roles')).status).toBe(403);
  }, START_MS);
});
