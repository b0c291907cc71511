import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { KeycloakIdentityProvider } from '../../src/identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
import { ProviderUnavailable } from '../../src/identity-management/domain/errors.js';
import { type FaultProxy, type ProxiedRequest, startFaultProxy } from '../servers/fault-proxy.mjs';
import { isKeycloakAvailable, type Keycloak, startKeycloak } from '../servers/keycloak.mjs';
import { keycloakOptions, keycloakPermissionsOf, keycloakToken, keycloakVariables, testRealm } from '../support/keycloak-realm.js';
import { type RunningService, startService } from '../support/service.js';

const START_MS = 240_000;
const PATIENCE = { timeout: 10_000, interval: 100 };
const BASE = '/idpManagementBackend';
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=Acme';
const ANSWERS = {
  unavailable: { status: 503, body: '{"error":"Identity provider unavailable."}', retryAfter: '10' },
  error: { status: 502, body: '{"error":"Identity provider error."}', retryAfter: null },
} as const;
const MANY_CONNECTIONS = 30;

const realm = testRealm();

describe.runIf(isKeycloakAvailable())('the service on a Keycloak that', { timeout: 60_000 }, () => {
  let server: Keycloak;
  let proxy: FaultProxy;
  let service: RunningService;
  let token: string;
  const known = { userId: '', roleId: '' };
  /** Of all users whose creation was asked for. */
  const emails: string[] = [];

  beforeAll(async () => {
    // The service's own tokens live so short that each row sees new ones.
    const lifespan = (clientId: string) => (clientId === keycloakOptions('').clientId ? '2' : '3600');
    const clients = realm.clients.map((client) => ({ ...client, attributes: { 'access.token.lifespan': lifespan(client.clientId) } }));
    server = await startKeycloak({ realm: { ...realm, clients } });
    proxy = await startFaultProxy(server.endpoint);
    const issuer = `${server.endpoint}/realms/${realm.realm}`;
    service = await startService({ ...keycloakVariables(proxy.endpoint), OIDC_ISSUER: issuer, INGESTION_AUTH: 'required' });
    token = await keycloakToken(server);
  }, START_MS);
  afterAll(async () => {
    expect(service.log.text).not.toMatch(/service-secret|eyJ/);
    await service.close();
    await proxy.close();
    await server.stop();
  });
  beforeEach(async () => {
    known.roleId = await id('create-role', { role_name: randomUUID(), permissions: ['read:users'] });
    known.userId = await id('create-user', { email: `${randomUUID()}@grid.example`, roles: [] });
    await expectWell();
  });

  async function send(operation: string, fields?: object): Promise<{ status: number; body: string; retryAfter: string | null }> {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const init = fields ? { method: 'POST', body: JSON.stringify(fields), headers } : { headers };
    const response = await fetch(`${service.url}${BASE}/${operation}`, init);
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
  /** Each of the six operations, as it succeeds on a Keycloak that is well. */
  const OPERATIONS: [operation: string, fields: () => object | undefined][] = [
    ['create-role', () => ({ role_name: randomUUID(), permissions: ['read:users'] })],
    ['assign-role', () => ({ user_id: known.userId, role_id: known.roleId })],
    ['create-user', newUser],
    ['update-user', () => ({ user_id: known.userId, new_name: 'Grace' })],
    ['roles', () => undefined],
    ['users', () => undefined],
  ];
  const sendAll = () => Promise.all(OPERATIONS.map(([operation, fields]) => send(operation, fields())));
  const readiness = async () => (await fetch(`${service.url}/health/ready`)).status;

  async function expectWell(): Promise<void> {
    await expect.poll(readiness, PATIENCE).toBe(200);
    await expect.poll(async () => (await sendAll()).map(({ status }) => status), PATIENCE).toEqual([201, 200, 201, 200, 200, 200]);
    await expect.poll(() => proxy.connections(), PATIENCE).toBeLessThan(MANY_CONNECTIONS);
  }

  /** Keycloak has nobody of those whose creation was answered with an error. */
  async function expectNobodyLeft(failed: readonly string[]): Promise<void> {
    const found = async () =>
      (await Promise.all(failed.map((email) => server.administer('GET', `/users?exact=true&email=${encodeURIComponent(email)}`)))).flat();
    await expect.poll(found, PATIENCE).toEqual([]);
  }

  const isAdministration = ({ url }: ProxiedRequest) => url.startsWith('/admin/');
  const isTokenRequest = ({ url }: ProxiedRequest) => url.endsWith('/token');
  const clientPath = async () => {
    const [client] = (await server.administer('GET', `/clients?clientId=${keycloakOptions('').clientId}`)) as { id: string }[];
    return `/clients/${client?.id ?? ''}`;
  };
  const setSecret = async (secret: string) => server.administer('PUT', await clientPath(), { clientId: keycloakOptions('').clientId, secret });

  const respond = (status: number, body: string, to?: (request: ProxiedRequest) => boolean) => ({
    begin: () => { proxy.respond(status, body, to && { to }); },
    end: () => proxy.pass(),
  });
  const PAGE = '<!DOCTYPE html><title>Down for maintenance</title>';
  const ROLES = '[{"id":"4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10","na';

  const FAULTS: [string, keyof typeof ANSWERS, { begin: () => unknown; end: () => unknown }][] = [
    ['refuses connections', 'unavailable', { begin: () => proxy.refuse(), end: () => proxy.pass() }],
    ['resets connections', 'unavailable', { begin: () => { proxy.reset(); }, end: () => proxy.pass() }],
    ['is stopped', 'unavailable', { begin: () => server.pause(), end: () => { server.resume(); } }],
    ['does all and answers nothing', 'unavailable', { begin: () => { proxy.hold(); }, end: () => proxy.pass() }],
    ['is throttling', 'unavailable', respond(429, '{"error":"too many"}')],
    ['answers 500', 'unavailable', respond(500, '{"error":"unknown_error"}')],
    ['is behind a gateway that answers 502', 'unavailable', respond(502, PAGE)],
    ['is behind a gateway that answers 503', 'unavailable', respond(503, PAGE)],
    ['is behind a gateway that answers 504', 'unavailable', respond(504, PAGE)],
    ['gives no token now', 'unavailable', respond(500, '{"error":"unknown_error"}', isTokenRequest)],
    ['gives a page in place of a token', 'error', respond(200, PAGE, isTokenRequest)],
    ['answers HTML', 'error', respond(200, PAGE, isAdministration)],
    ['answers HTML with 404', 'error', respond(404, PAGE, isAdministration)],
    ['answers JSON that ends early', 'error', respond(200, ROLES, isAdministration)],
    ['answers another JSON', 'error', respond(200, '{"a":1}', isAdministration)],
    ['redirects', 'error', respond(302, '', isAdministration)],
    ['takes no token', 'error', respond(401, '{"error":"HTTP 401 Unauthorized"}', isAdministration)],
    ['permits nothing', 'error', respond(403, '{"error":"HTTP 403 Forbidden"}', isAdministration)],
    ['has lost the realm', 'error', respond(404, '{"error":"Realm not found."}', isAdministration)],
    ['got another secret for the service', 'error', { begin: () => setSecret('another'), end: () => setSecret(keycloakOptions('').clientSecret) }],
    [
      'has the realm disabled',
      'error',
      { begin: () => server.administer('PUT', '', { enabled: false }), end: () => server.administer('PUT', '', { enabled: true }) },
    ],
  ];

  it.each(FAULTS)('%s: "provider %s" to all six, uploads go on, and all is well again by itself', async (_, kind, fault) => {
    await fault.begin();
    const failed: string[] = [];
    try {
      // The token that it has may hold for a second.
      await expect.poll(async () => (await send('roles')).status, { ...PATIENCE, timeout: 15_000 }).toBe(ANSWERS[kind].status);
      const before = emails.length;
      const answers = await sendAll();
      failed.push(...emails.slice(before));
      for (const answer of answers) expect(answer).toEqual(ANSWERS[kind]);
      await expect.poll(readiness, PATIENCE).toBe(503);
      const upload = await fetch(service.url + UPLOAD, { method: 'POST', body: 'a file', headers: { authorization: `Bearer ${token}` } });
      expect(upload.status).toBe(200);
    } finally {
      await fault.end();
    }
    await expectWell();
    await expectNobodyLeft(failed);
  });

  it.each(OPERATIONS)('no longer takes the token of the service: %s gets a new one, and asks again', async (operation, fields) => {
    const refused = proxy.answer(401, 'expired', { to: isAdministration });
    expect((await send(operation, fields())).status).toBeLessThan(300);
    await refused;
  });

  const LOSSES: [string, (request: ProxiedRequest) => boolean][] = [
    ['that a user is created', ({ method, url }) => method === 'POST' && url.endsWith('/users')],
    ['that a user has their roles, twice', ({ method, url }) => method === 'POST' && url.endsWith('/role-mappings/realm')],
  ];
  it.each(LOSSES)('loses the answer %s: nobody is left, and the e-mail is free', async (_, to) => {
    const user = newUser();
    void proxy.cutAnswer({ to });
    void proxy.cutAnswer({ to });
    expect(await send('create-user', user)).toEqual(ANSWERS.unavailable);
    await proxy.pass();
    await expectNobodyLeft([user.email]);
    await id('create-user', user);
  });

  it('does not tell the id of a user that is created: nobody is left, and the e-mail is free', async () => {
    const user = newUser();
    proxy.mute('location', { to: ({ method, url }) => method === 'POST' && url.endsWith('/users') });
    expect(await send('create-user', user)).toEqual(ANSWERS.error);
    await expectNobodyLeft([user.email]);
    await proxy.pass();
    await id('create-user', user);
  });

  const isGift = ({ url }: ProxiedRequest) => url.endsWith('/role-mappings/realm');
  const COLLISION = '{"errorMessage":"Could not add user role mappings!"}';
  it('has two calls that collide: the role is given at the second attempt', async () => {
    const collided = proxy.answer(400, COLLISION, { to: isGift });
    expect((await send('assign-role', { user_id: known.userId, role_id: known.roleId })).status).toBe(200);
    await collided;
    expect(await keycloakPermissionsOf(server, known.userId)).toEqual(['read:users']);
  });

  it('refuses a role again and again that the user has: it is read back', async () => {
    expect((await send('assign-role', { user_id: known.userId, role_id: known.roleId })).status).toBe(200);
    proxy.respond(400, COLLISION, { to: (request) => request.method === 'POST' && isGift(request) });
    expect((await send('assign-role', { user_id: known.userId, role_id: known.roleId })).status).toBe(200);
    await proxy.pass();
  });

  it('creates users, but gives them no roles: nobody is left, and the e-mail is free', async () => {
    const user = newUser();
    proxy.respond(500, '{}', { to: ({ url }) => url.endsWith('/role-mappings/realm') });
    expect(await send('create-user', user)).toEqual(ANSWERS.unavailable);
    await expectNobodyLeft([user.email]);
    await proxy.pass();
    await id('create-user', user);
  });

  it('has the creation of a user before it when it goes on: nobody is left', async () => {
    const user = newUser();
    // Its roles are known; what comes next is the user.
    const asked = proxy.answer(401, 'expired', { to: ({ method, url }) => method === 'POST' && url.endsWith('/users') });
    const answer = send('create-user', user);
    await asked;
    await server.pause();
    expect(await answer).toEqual(ANSWERS.unavailable);
    server.resume();
    await expectWell();
    await expectNobodyLeft([user.email]);
  });

  it('breaks off in a list: what was begun ends in an error', async () => {
    // Not the looks for users that were left.
    const to = ({ url }: ProxiedRequest) => url.includes('/users?briefRepresentation=');
    void proxy.cutAnswer({ to, afterBytes: 20 });
    void proxy.cutAnswer({ to, afterBytes: 20 });
    expect(await send('users')).toEqual(ANSWERS.unavailable);

    const provider = new KeycloakIdentityProvider({ ...keycloakOptions(proxy.endpoint), usersPerPage: 2 });
    const pages = provider.listUsers({ signal: new AbortController().signal })[Symbol.asyncIterator]();
    expect((await pages.next()).done).toBe(false);
    void proxy.cutAnswer({ to, afterBytes: 20 });
    void proxy.cutAnswer({ to, afterBytes: 20 });
    await expect(pages.next()).rejects.toThrow(ProviderUnavailable);
  });

  it('takes too long for all roles at once: they are listed page by page, each once', async () => {
    const moreThanOnePage: string[] = [];
    while (moreThanOnePage.length < 101) moreThanOnePage.push(await id('create-role', { role_name: randomUUID(), permissions: ['read:users'] }));
    proxy.hold({ to: ({ url }) => url.includes('/roles?') && !url.includes('first=') });
    const provider = new KeycloakIdentityProvider({ ...keycloakOptions(proxy.endpoint), allRolesTimeoutMs: 100 });
    const listed: string[] = [];
    for await (const page of provider.listRoles({ signal: new AbortController().signal })) listed.push(...page.map(({ roleId }) => roleId));
    await proxy.pass();
    expect(listed).toEqual(expect.arrayContaining(moreThanOnePage));
    expect(new Set(listed).size).toBe(listed.length);
  });

  it('is not there at boot: the service is live, and well once it is there', async () => {
    await proxy.refuse();
    const issuer = `${server.endpoint}/realms/${realm.realm}`;
    const late = await startService({ ...keycloakVariables(proxy.endpoint), OIDC_ISSUER: issuer });
    const roles = async () => (await fetch(`${late.url}${BASE}/roles`, { headers: { authorization: `Bearer ${token}` } })).status;
    try {
      expect((await fetch(`${late.url}/health/live`)).status).toBe(200);
      expect((await fetch(`${late.url}/health/ready`)).status).toBe(503);
      expect(await roles()).toBe(503);
      await proxy.pass();
      await expect.poll(roles, PATIENCE).toBe(200);
      await expect.poll(async () => (await fetch(`${late.url}/health/ready`)).status, PATIENCE).toBe(200);
    } finally {
      await late.close();
    }
  });

  it('changes its keys: tokens of the old and the new one are believed, and those of the old one no longer ten minutes after it is gone', async () => {
    const type = 'org.keycloak.keys.KeyProvider';
    const keys = async () => (await server.administer('GET', `/components?type=${type}`)) as { id: string; name: string; config: object }[];
    const setEnabled = async (named: string, enabled: boolean) => {
      const [key] = (await keys()).filter(({ name }) => name === named);
      await server.administer('PUT', `/components/${key?.id ?? ''}`, { ...key, config: { ...key?.config, enabled: [String(enabled)] } });
    };
    let fetches = 0;
    proxy.respond(500, '', { to: ({ url }) => { fetches += Number(url.endsWith('/certs')); return false; } });
    // One of its own, which alone lives in the time to come.
    const issuer = `${server.endpoint}/realms/${realm.realm}`;
    const another = await startService({ ...keycloakVariables(proxy.endpoint), OIDC_ISSUER: issuer });
    const status = async (each: string) => (await fetch(`${another.url}${BASE}/roles`, { headers: { authorization: `Bearer ${each}` } })).status;
    const statuses = (...tokens: string[]) => Promise.all(tokens.map(status));
    const later = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);
    try {
      expect(await statuses(token)).toEqual([200]);
      await server.administer('POST', '/components', { name: 'new', providerId: 'rsa-generated', providerType: type, config: { priority: ['200'] } });
      const next = await keycloakToken(server);
      vi.useFakeTimers({ toFake: ['Date'] });
      // An unknown key leads to a fetch of all keys, once in five seconds.
      later(5);
      const many = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? token : next));
      expect(await statuses(...many)).toEqual(many.map(() => 200));
      expect(fetches).toBe(2);

      await setEnabled('rsa-generated', false);
      later(599);
      expect(await statuses(token, next)).toEqual([200, 200]);
      later(1);
      expect(await statuses(token, next)).toEqual([403, 200]);
      expect(fetches).toBe(3);
    } finally {
      vi.useRealTimers();
      await setEnabled('rsa-generated', true);
      await setEnabled('new', false);
      await another.close();
      await proxy.pass();
    }
  });

  it('is killed, and comes back with new keys: tokens that it has given before are refused, new ones believed', async () => {
    await server.kill();
    expect(await sendAll()).toEqual(OPERATIONS.map(() => ANSWERS.unavailable));
    await server.restart();
    const old = token;
    token = await keycloakToken(server);
    // An unknown key leads to a fetch of all keys, once in five seconds.
    await expect.poll(async () => (await send('roles')).status, PATIENCE).toBe(200);
    const refused = await fetch(`${service.url}${BASE}/roles`, { headers: { authorization: `Bearer ${old}` } });
    expect(refused.status).toBe(403);
    expect(await readiness()).toBe(200);
  }, START_MS);
});
