import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../../src/authentication/permissions.js';
import { type Auth0StandIn, type ClientCredentials, SERVICE_SCOPES } from '../../src/testing/index.js';
import { callManagementApi, type CheckedAuth0, ownViolations, startCheckedAuth0 } from '../support/checked-auth0.js';
import { identityRequests } from '../support/identity-requests.js';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { type Findings, readiness } from '../support/readiness.js';
import { until } from '../support/replicas.js';
import { startService } from '../support/service.js';

const PUBLIC_URL = 'http://load.grid.example/load';
const API = 'https://api.grid.example/load';
const CONNECTION = 'people';
const SERVICE = 'load-data-service';
const SWAGGER_UI = 'load-data-swagger-ui';
const ROLE = 'load-data-administrator';
const OTHER_SCOPES = ['do:other', 'do:more'];

/** The scopes of the Management API that the set-up needs, as listed in docs/auth0.md. */
const SETUP_SCOPES = [
  'read:resource_servers', 'create:resource_servers', 'update:resource_servers', 'read:client_keys', 'create:clients', 'update:clients',
  'read:client_grants', 'create:client_grants', 'update:client_grants', 'read:connections', 'update:connections', 'read:roles', 'create:roles', 'update:roles',
  'read:users', 'create:users', 'update:users', 'read:role_members', 'create:role_members', 'create:user_tickets',
];

interface Item {
  readonly id: string;
  readonly name: string;
  readonly client_id: string;
  readonly scope: string[];
  readonly [member: string]: unknown;
}

describe('npm run auth0:setup', { timeout: 60_000 }, () => {
  let checked: CheckedAuth0;
  let tenant: Auth0StandIn;
  let workspace: Workspace;
  let variables: Record<string, string>;

  const administer = async <Result = Item>(operation: string, body?: unknown): Promise<Result> => {
    const answer = await callManagementApi(tenant, operation, body);
    expect([200, 201, 204]).toContain(answer.status);
    return answer.body as Result;
  };
  /** All items of one of the tenant's lists, read as three pages of 50. The list must not have more than 150 items. */
  async function list(path: string): Promise<Item[]> {
    const separator = path.includes('?') ? '&' : '?';
    const pages = [0, 1, 2].map((page) => administer<Item[]>(`GET ${path}${separator}per_page=50&page=${page}`));
    return (await Promise.all(pages)).flat();
  }
  const found = async (path: string, name: string): Promise<Item> => {
    const item = (await list(path)).find((one) => one.name === name);
    if (!item) throw new Error(`There is no ${name}`);
    return item;
  };
  const clientPath = async (name: string) => `/clients/${(await found('/clients', name)).client_id}`;
  const apiPath = `/resource-servers/${encodeURIComponent(API)}`;
  const connectionPath = async () => `/connections/${(await found('/connections', CONNECTION)).id}/clients`;
  const grant = async (): Promise<Item> => {
    const { client_id: id } = await found('/clients', SERVICE);
    const [one] = await list(`/client-grants?client_id=${id}`);
    if (!one) throw new Error('There is no grant');
    return one;
  };
  const rolePath = async () => `/roles/${(await found('/roles', ROLE)).id}`;

  async function newSetupApplication(scope: readonly string[]): Promise<ClientCredentials> {
    const { client_id: clientId, client_secret: clientSecret } = await administer('POST /clients', { name: 'set-up', app_type: 'non_interactive' });
    await administer('POST /client-grants', { client_id: clientId, audience: `${tenant.domain}/api/v2/`, scope });
    return { clientId, clientSecret: String(clientSecret) };
  }

  beforeAll(async () => {
    checked = await startCheckedAuth0({ audience: null, connections: ['Username-Password-Authentication', CONNECTION], settings: { largestPage: 50 } });
    tenant = checked.standIn;
    workspace = await Workspace.create();
    // Renames the application that the stand-in has for the service, so that the set-up treats it as that of another
    // service.
    const { clientId: other } = tenant.service;
    await administer(`PATCH /clients/${other}`, { name: 'another service' });
    for (let index = 0; index < 101; index++) await administer('POST /clients', { name: `application ${index}` });
    for (let index = 0; index < 51; index++) await administer('POST /roles', { name: `${ROLE} ${index}` });
    const { clientId, clientSecret } = await newSetupApplication(SETUP_SCOPES);
    variables = {
      AUTH0_DOMAIN: tenant.domain,
      OIDC_AUDIENCE: API,
      AUTH0_CONNECTION: CONNECTION,
      PUBLIC_URL,
      AUTH0_SETUP_CLIENT_ID: clientId,
      AUTH0_SETUP_CLIENT_SECRET: clientSecret,
    };
  });
  afterAll(async () => {
    await workspace.dispose();
    await tenant.stop();
    expect(ownViolations(checked)).toEqual([]);
  });

  /**
   * Runs the set-up of the tenant, which must succeed. Resolves to its changes, its messages and the environment that
   * it prints.
   */
  async function setUp(...parameters: string[]): Promise<{ changes: string[]; notes: string; environment: Record<string, string> }> {
    const { code, stdout, stderr } = await workspace.auth0Setup(parameters, variables);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return { changes: stderr.split('\n').filter((line) => /^[+~] /.test(line)), notes: stderr, environment: parseEnv(stdout) as Record<string, string> };
  }

  /** The complete contents of the tenant, for comparisons. */
  const contents = async (): Promise<unknown> => ({
    apis: await list('/resource-servers'),
    clients: await list('/clients'),
    grants: await list('/client-grants'),
    connections: await list('/connections'),
    roles: await list('/roles'),
    users: await list('/users'),
  });

  const email = 'ada@grid.example';
  const ALL_CHANGES = [
    `+ API ${API}`,
    `+ application ${SERVICE}`,
    ...SERVICE_SCOPES.map((scope) => `+ scope ${scope} of application ${SERVICE}`),
    `+ application ${SWAGGER_UI}`,
    `+ connection ${CONNECTION} of application ${SWAGGER_UI}`,
    `+ role ${ROLE}`,
    `+ user ${email}`,
    `+ link for ${email} to set a password`,
    `+ role ${ROLE} of user ${email}`,
  ];

  it('creates everything from nothing, with an environment for the service, and an administrator with all permissions', async () => {
    const before = await contents();
    const planned = await setUp('--administrator', email, '--dry-run');
    expect([...planned.changes].sort()).toEqual([...ALL_CHANGES].sort());
    expect(planned).toMatchObject({ environment: {}, notes: expect.stringMatching(new RegExp(`^Would change ${ALL_CHANGES.length}; nothing is changed\\.$`, 'm')) as string });
    expect(await contents()).toEqual(before);

    const made = await setUp('--administrator', 'Ada@grid.example');
    expect(made.changes).toEqual(planned.changes);
    expect(made.notes.match(/http:\S+ticket=\w+/g)).toHaveLength(1);
    expect(tenant.mails).toEqual([]);
    expect(made.notes).not.toContain(made.environment.AUTH0_CLIENT_SECRET);

    expect(await administer(`GET ${apiPath}`)).toMatchObject({ signing_alg: 'RS256', enforce_policies: true, token_dialect: 'access_token_authz' });
    expect(await grant()).toMatchObject({ scope: expect.arrayContaining([...SERVICE_SCOPES]) as string[], audience: `${tenant.domain}/api/v2/` });
    expect((await grant()).scope).toHaveLength(SERVICE_SCOPES.length);
    expect(await administer(`GET ${await clientPath(SERVICE)}`)).toMatchObject({ app_type: 'non_interactive', grant_types: ['client_credentials'] });
    expect(await administer(`GET ${await clientPath(SWAGGER_UI)}`)).toMatchObject({
      app_type: 'spa',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      callbacks: [`${PUBLIC_URL}/docs/oauth2-redirect.html`],
      web_origins: ['http://load.grid.example'],
      client_id: made.environment.SWAGGER_UI_CLIENT_ID,
    });

    const { origin } = await workspace.start(made.environment);
    expect(await readiness(origin)).toEqual({ status: 200 });
    const [ada] = await administer<Item[]>(`GET /users-by-email?email=${email}`);
    const token = await tenant.issueToken({ userId: String(ada?.user_id), audience: API });
    const { post, created, list: listed } = identityRequests({ url: origin, token });
    const roleId = await created('create-role', { role_name: 'Auditor', permissions: ['read:users', 'new:permission'] });
    const userId = await created('create-user', { email: 'grace@grid.example', name: 'Grace', roles: [] });
    expect((await post('assign-role', { user_id: userId, role_id: roleId })).status).toBe(200);
    expect((await post('update-user', { user_id: userId, new_name: 'Rear admiral' })).status).toBe(200);
    expect(await listed('users')).toContainEqual({ user_id: userId, name: 'Rear admiral', email: 'grace@grid.example' });
    expect((await listed('roles')).map(({ name }) => name)).toEqual(expect.arrayContaining(['Auditor', ROLE]));

    const then = await contents();
    const again = await setUp('--administrator', email);
    expect(again.changes).toEqual([]);
    expect(again.notes).toMatch(/^Nothing to change\.$/m);
    expect(again.notes).not.toContain('ticket');
    expect(again.environment).toEqual(made.environment);
    expect(await contents()).toEqual(then);
  });

  it('keeps the objects of others, and reports what the service does not need', async () => {
    const { scopes } = await administer(`GET ${apiPath}`);
    const others = OTHER_SCOPES.map((value) => ({ value, description: `Others ${value}` }));
    const permissions = (scopes as { value: string }[]).filter(({ value }) => value !== 'read:users');
    await administer(`PATCH ${apiPath}`, { scopes: [...others, ...permissions], name: 'Our API', token_lifetime: 600, token_dialect: 'rfc9068_profile' });
    const { id, scope } = await grant();
    await administer(`PATCH /client-grants/${id}`, { scope: ['read:connections', ...scope.filter((one) => one !== 'create:users')] });
    const callbacks = ['http://localhost:3000/callback'];
    await administer(`PATCH ${await clientPath(SWAGGER_UI)}`, { callbacks, web_origins: ['http://localhost:3000'] });
    await administer(`PATCH ${await clientPath(SERVICE)}`, { description: 'Ours', grant_types: ['client_credentials', 'refresh_token'] });
    const enabled = await administer<object>(`GET ${await connectionPath()}`);

    const { changes, notes } = await setUp();
    expect(changes).toEqual([
      `~ API ${API}: token_dialect`,
      '+ permission read:users',
      `+ scope create:users of application ${SERVICE}`,
      `~ application ${SWAGGER_UI}: callbacks, web_origins`,
      `+ permission read:users of role ${ROLE}`,
    ]);
    expect(notes).toMatch(new RegExp(`^! application ${SERVICE} does not need the scope read:connections$`, 'm'));
    expect(await administer(`GET ${apiPath}`)).toMatchObject({
      name: 'Our API',
      token_lifetime: 600,
      token_dialect: 'rfc9068_profile_authz',
      scopes: [...others, ...permissions, { value: 'read:users' }],
    });
    expect((await grant()).scope).toEqual(['read:connections', ...scope.filter((one) => one !== 'create:users'), 'create:users']);
    expect(await administer(`GET ${await clientPath(SWAGGER_UI)}`)).toMatchObject({ callbacks: [...callbacks, `${PUBLIC_URL}/docs/oauth2-redirect.html`] });
    expect(await administer(`GET ${await clientPath(SERVICE)}`)).toMatchObject({ description: 'Ours', grant_types: ['client_credentials', 'refresh_token'] });
    expect(await administer<object>(`GET ${await connectionPath()}`)).toEqual(enabled);
    await administer(`PATCH ${apiPath}`, { token_dialect: 'access_token_authz' });
    await administer(`PATCH /client-grants/${id}`, { scope });
  });

  it.each([
    ['a link', 'who exists and has never logged in', {}, ['+ link for EMAIL to set a password', `+ role ${ROLE} of user EMAIL`]],
    ['no link', 'who has logged in', { logins: 1 }, [`+ role ${ROLE} of user EMAIL`]],
  ])('gives the role and %s to a user %s', async (_, __, options, expected) => {
    const [userId = ''] = tenant.loadUsers(1, { ...options, provider: 'auth0', connection: CONNECTION });
    const { email: address } = await administer<{ email: string }>(`GET /users/${encodeURIComponent(userId)}`);
    const { changes, notes } = await setUp('--administrator', address);
    expect(changes).toEqual(expected.map((line) => line.replace('EMAIL', address)));
    expect(notes.match(/ticket=/g) ?? []).toHaveLength(expected.length - 1);
  });

  it.each([
    ['the answer to the creation of the user arrived', 'POST /api/v2/users', 'lost-answer'],
    ['the link existed', 'POST /api/v2/tickets/password-change', 'reset'],
    ['the user had the role', 'POST /api/v2/users/{id}/roles', 'reset'],
  ] as const)('that failed before %s shows a link in the next run, and then changes nothing', async (step, request, kind) => {
    const address = `${step.replaceAll(' ', '.')}@grid.example`;
    tenant.fail(request, { kind }, { times: 1 });
    expect(await workspace.auth0Setup(['--administrator', address], variables)).toMatchObject({ code: 1 });
    const second = await setUp('--administrator', address);
    expect(second.changes).toEqual([`+ link for ${address} to set a password`, `+ role ${ROLE} of user ${address}`]);
    expect(second.notes.match(/http:\S+ticket=\w+/g)).toHaveLength(1);
    const third = await setUp('--administrator', address);
    expect({ changes: third.changes, hasLink: third.notes.includes('ticket') }).toEqual({ changes: [], hasLink: false });
  });

  it('works on a tenant with few calls a second', async () => {
    tenant.settings.rateLimit = { burst: 2, perSecond: 20 };
    expect((await setUp()).changes).toEqual([]);
    tenant.settings.rateLimit = undefined;
  });

  const problem = (...lines: string[]) => ({ status: 503, problems: lines });
  const patchApi = (change: object) => () => administer(`PATCH ${apiPath}`, change);
  const patchGrant = (change: (scope: string[]) => string[]) => async () => {
    const { id, scope } = await grant();
    await administer(`PATCH /client-grants/${id}`, { scope: change(scope) });
  };
  const withoutPermissions = (...gone: string[]) => async () => {
    const { scopes } = await administer(`GET ${apiPath}`);
    await administer(`PATCH ${apiPath}`, { scopes: (scopes as { value: string }[]).filter(({ value }) => !gone.includes(value)) });
  };
  const remove = (path: () => Promise<string>) => async () => administer(`DELETE ${await path()}`);
  const lacksScope = (scope: string) => `The application "ID" lacks the scope ${scope} of the Management API.`;
  const ofRole = (permission: string) => `+ permission ${permission} of role ${ROLE}`;
  /** The service needs this scope to look for any of the other defects. */
  const [READ_SCOPE, ONE_SCOPE] = ['read:resource_servers', 'update:users'] as const;

  /**
   * The possible defects of a tenant. For each: its name, how to cause it, what the service's readiness then reports,
   * and the changes that the set-up prints when it fixes the defect.
   */
  const DEFECTS: [string, () => Promise<unknown>, Findings, string[]][] = [
    ['the API is missing', () => administer(`DELETE ${apiPath}`), problem(`There is no API "${API}" (OIDC_AUDIENCE).`), [`+ API ${API}`, ...PERMISSIONS.map(ofRole)]],
    [
      'RBAC is off',
      patchApi({ enforce_policies: false }),
      problem(`The API "${API}" has RBAC switched off (enforce_policies), so that tokens carry no permissions.`),
      [`~ API ${API}: enforce_policies`],
    ],
    [
      'tokens have no permissions',
      patchApi({ token_dialect: 'access_token' }),
      problem(`The API "${API}" puts no permissions into tokens (token_dialect).`),
      [`~ API ${API}: token_dialect`],
    ],
    ...['HS256', 'PS256'].map((algorithm): (typeof DEFECTS)[number] => [
      `tokens are signed with ${algorithm}`,
      patchApi({ signing_alg: algorithm }),
      problem(`The API "${API}" signs tokens with ${algorithm}, but the service accepts only RS256 (signing_alg).`),
      [`~ API ${API}: signing_alg`],
    ]),
    ...[['read:users'] as const, PERMISSIONS].map((gone): (typeof DEFECTS)[number] => [
      `the permissions ${gone.join(', ')} are missing`,
      withoutPermissions(...gone),
      { status: 200, warnings: gone.map((permission) => `The API "${API}" has no permission "${permission}".`) },
      gone.flatMap((permission) => [`+ permission ${permission}`, ofRole(permission)]),
    ]),
    ...[[READ_SCOPE], [ONE_SCOPE], SERVICE_SCOPES.filter((scope) => scope !== READ_SCOPE)].map((gone): (typeof DEFECTS)[number] => [
      `the service lacks ${gone.join(', ')}`,
      patchGrant((held) => held.filter((one) => !gone.some((scope) => scope === one))),
      problem(...gone.map(lacksScope)),
      gone.map((scope) => `+ scope ${scope} of application ${SERVICE}`),
    ]),
    [
      'the service has no client grant',
      remove(async () => `/client-grants/${(await grant()).id}`),
      problem('The application "ID" has no client grant for the Management API.'),
      SERVICE_SCOPES.map((scope) => `+ scope ${scope} of application ${SERVICE}`),
    ],
    [
      'the service may not use client credentials',
      async () => administer(`PATCH ${await clientPath(SERVICE)}`, { grant_types: ['authorization_code'] }),
      problem('The application "ID" may not use client credentials.'),
      [`~ application ${SERVICE}: grant_types`],
    ],
    [
      'the application of Swagger UI is missing',
      remove(() => clientPath(SWAGGER_UI)),
      { status: 200 },
      [`+ application ${SWAGGER_UI}`, `+ connection ${CONNECTION} of application ${SWAGGER_UI}`],
    ],
    [
      'no user can log in to Swagger UI',
      async () => administer(`PATCH ${await connectionPath()}`, [{ client_id: (await found('/clients', SWAGGER_UI)).client_id, status: false }]),
      { status: 200 },
      [`+ connection ${CONNECTION} of application ${SWAGGER_UI}`],
    ],
    ['the role is missing', remove(rolePath), { status: 200 }, [`+ role ${ROLE}`]],
  ];

  describe('repairs a tenant', () => {
    let environment: Record<string, string>;
    beforeAll(async () => {
      ({ environment } = await setUp());
    });

    const named = (findings: Findings): Findings => JSON.parse(JSON.stringify(findings).replaceAll('ID\\"', `${environment.AUTH0_CLIENT_ID ?? ''}\\"`)) as Findings;

    const inAnyOrder = ({ status, problems = [], warnings = [] }: Findings) => ({ status, problems: [...problems].sort(), warnings: [...warnings].sort() });

    const expectHealthy = async () => {
      const service = await startService(environment);
      const found = await readiness(`http://127.0.0.1:${service.port}`).finally(() => service.close());
      expect(found).toEqual({ status: 200 });
    };

    it.each(DEFECTS)('where %s', async (_, spoil, expected, changes) => {
      await spoil();
      const reported = named(expected);
      const { problems = [], warnings = [] } = reported;
      const service = await startService(environment);
      const origin = `http://127.0.0.1:${service.port}`;
      try {
        expect(inAnyOrder(await readiness(origin))).toEqual(inAnyOrder(reported));
        expect((await fetch(`${origin}/health/live`)).status).toBe(200);
        for (const line of [...problems, ...warnings]) {
          expect(service.log.entries.filter(({ text }) => text.includes(JSON.stringify(`identity_provider: ${line}`)))).toHaveLength(1);
        }
        expect((await setUp()).changes.sort()).toEqual([...changes].sort());
        // If there were only warnings, the service was healthy, and caches this result for longer than this test waits.
        // So `expectHealthy` starts another service in that case.
        if (problems.length > 0) await expect.poll(() => readiness(origin), { timeout: 10_000, interval: 250 }).toEqual({ status: 200 });
      } finally {
        await service.close();
      }
      if (warnings.length > 0) await expectHealthy();
    });

    it.each<[string, Record<string, string>, string]>([
      ['the secret is wrong', { AUTH0_CLIENT_SECRET: 'x-secret' }, 'There is no application "ID" (AUTH0_CLIENT_ID), or AUTH0_CLIENT_SECRET is not its secret.'],
      ['the API is not the right one', { OIDC_AUDIENCE: 'another' }, 'There is no API "another" (OIDC_AUDIENCE).'],
    ])('but changes nothing when %s, which the service reports', async (_, other, line) => {
      const service = await startService({ ...environment, ...other });
      try {
        expect(await readiness(`http://127.0.0.1:${service.port}`)).toEqual(named(problem(line)));
        expect(service.log.text).not.toContain('x-secret');
      } finally {
        await service.close();
      }
    });

    it('by a new application of the service when it is missing', async () => {
      await administer(`DELETE ${await clientPath(SERVICE)}`);
      const made = await setUp();
      expect(made.changes.sort()).toEqual([`+ application ${SERVICE}`, ...[...SERVICE_SCOPES].sort().map((scope) => `+ scope ${scope} of application ${SERVICE}`)]);
      expect(made.environment.AUTH0_CLIENT_ID).not.toBe(environment.AUTH0_CLIENT_ID);
    });
  });

  it('uses the applications with the given ids, whatever their names', async () => {
    const { client_id: clientId } = await administer('POST /clients', { name: 'renamed' });
    const { code, stdout } = await workspace.auth0Setup([], { ...variables, AUTH0_CLIENT_ID: clientId });
    expect({ code, id: parseEnv(stdout).AUTH0_CLIENT_ID }).toEqual({ code: 0, id: clientId });
    expect(await administer(`GET /clients/${clientId}`)).toMatchObject({ name: 'renamed', app_type: 'non_interactive' });
  });

  it('creates a second application of the service when the first has another name, and no request fails while services change over', async () => {
    const { environment: first } = await setUp();
    const token = await tenant.issueToken({ audience: API, permissions: PERMISSIONS });
    const start = (name: string, environment: Record<string, string>) => workspace.start({ ...environment, DATA_DIR: join(workspace.directory, name) });
    const replicas: [string, ServiceProcess][] = [['one', await start('one', first)], ['other', await start('other', first)]];
    let serving = replicas.map(([, service]) => service);
    const statuses: number[] = [];
    const traffic = { isOver: false };
    const requests = (async () => {
      while (!traffic.isOver) {
        const origin = serving.at(statuses.length % serving.length)?.origin ?? '';
        statuses.push((await fetch(`${origin}/idpManagementBackend/roles`, { headers: { Authorization: `Bearer ${token}` } })).status);
      }
    })();
    /** Waits until each service has answered requests for which it needed a new token of the Management API. */
    const served = async () => {
      tenant.expireManagementTokens();
      const wanted = statuses.length + 2 * serving.length;
      await until(() => statuses.length >= wanted);
    };
    try {
      await served();
      await administer(`PATCH ${await clientPath(SERVICE)}`, { name: `${SERVICE} (old)` });
      const second = await setUp();
      expect(second.changes).toContain(`+ application ${SERVICE}`);
      await served();
      for (const [name, service] of replicas) {
        serving = serving.filter((one) => one !== service);
        await service.program.end('SIGTERM');
        serving = [...serving, await start(name, second.environment)];
        await served();
      }
      await administer(`DELETE /clients/${first.AUTH0_CLIENT_ID ?? ''}`);
      await served();
    } finally {
      traffic.isOver = true;
      await requests;
    }
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    await Promise.all(serving.map(({ program }) => program.end('SIGTERM')));
  });

  it.each(['AUTH0_CLIENT_ID', 'SWAGGER_UI_CLIENT_ID'])('changes nothing when %s is the id of no application', async (variable) => {
    await administer(`PATCH ${apiPath}`, { enforce_policies: false });
    const before = await contents();
    for (const parameters of [['--dry-run'], []]) {
      const { code, stdout, stderr } = await workspace.auth0Setup(parameters, { ...variables, [variable]: 'nonsense' });
      expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: `There is no application "nonsense" (${variable}).\n` });
    }
    expect(await contents()).toEqual(before);
    expect((await setUp()).changes).toEqual([`~ API ${API}: enforce_policies`]);
  });

  it('without PUBLIC_URL, repairs the application of Swagger UI but leaves its addresses unchanged', async () => {
    const { client_id: clientId } = await administer(`PATCH ${await clientPath(SWAGGER_UI)}`, { grant_types: ['implicit'] });
    const { code, stderr } = await workspace.auth0Setup([], { ...variables, PUBLIC_URL: '', PORT: '3000' });
    expect({ code, changes: stderr.match(/^[+~] .*/gm) }).toEqual({ code: 0, changes: [`~ application ${SWAGGER_UI}: grant_types`] });
    const { callbacks, web_origins: origins } = await administer(`GET /clients/${clientId}`);
    expect([callbacks, origins].flat().filter((address) => String(address).includes('127.0.0.1'))).toEqual([]);
  });

  it('without PUBLIC_URL, creates an application of Swagger UI for the local address of the service', async () => {
    await administer(`DELETE ${await clientPath(SWAGGER_UI)}`);
    const { code } = await workspace.auth0Setup([], { ...variables, PUBLIC_URL: '', PORT: '3000' });
    expect(code).toBe(0);
    const addresses = { callbacks: ['http://127.0.0.1:3000/docs/oauth2-redirect.html'], web_origins: ['http://127.0.0.1:3000'] };
    expect(await administer(`GET ${await clientPath(SWAGGER_UI)}`)).toMatchObject(addresses);
    await setUp();
  });

  it.each<[string, string[], Record<string, string>, number, RegExp]>([
    ['a secret is the value of an argument', ['--client-secret', 'x-secret'], {}, 2, /^There is an unknown argument; credentials come from .*\(usage: .*\)\n$/],
    ['a secret is an argument itself', ['x-secret'], {}, 2, /^There is an unknown argument; credentials come from .*\(usage: .*\)\n$/],
    ['an argument has no value', ['--administrator'], {}, 2, /^An argument has no value, or one too many \(usage: .*\)\n$/],
    ['the administrator is not an e-mail', ['--administrator', 'ada:x-secret'], {}, 2, /^--administrator must be an e-mail address \(usage: .*\)\n$/],
    ['variables are missing', [], { AUTH0_DOMAIN: '', OIDC_AUDIENCE: '' }, 1, /^AUTH0_DOMAIN: must be set\nOIDC_AUDIENCE: must be set\n$/],
    ['there is no terminal to ask for the secret', [], { AUTH0_SETUP_CLIENT_SECRET: '' }, 1, /^There is no terminal to ask on, so .*\n$/],
    ['Auth0 is unreachable', [], { AUTH0_DOMAIN: 'http://127.0.0.1:1' }, 1, /^Auth0 does not answer .*ECONNREFUSED.*\n$/],
    ['the secret is wrong', [], { AUTH0_SETUP_CLIENT_SECRET: 'x-secret' }, 1, /^Auth0 gives no token for AUTH0_SETUP_CLIENT_ID: Unauthorized\.\n$/],
    ['the connection is missing', [], { AUTH0_CONNECTION: 'nowhere' }, 1, /There is no connection "nowhere" \(AUTH0_CONNECTION\)\.\n$/],
  ])('ends with one line for each problem when %s', async (_, parameters, other, status, message) => {
    const { code, stdout, stderr } = await workspace.auth0Setup(parameters, { ...variables, ...other });
    expect({ code, stdout }).toEqual({ code: status, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('x-secret');
  });

  it.each(['create:client_grants', 'read:client_keys', 'create:user_tickets'])('reports that the scope %s is missing', async (scope) => {
    const { clientId, clientSecret } = await newSetupApplication(SETUP_SCOPES.filter((one) => one !== scope));
    await administer(`DELETE ${apiPath}`);
    await administer(`DELETE ${await clientPath(SERVICE)}`);
    await administer(`DELETE ${await clientPath(SWAGGER_UI)}`);
    await administer(`DELETE ${await rolePath()}`);
    const setup = { AUTH0_SETUP_CLIENT_ID: clientId, AUTH0_SETUP_CLIENT_SECRET: clientSecret };
    const email = `${scope.replace(':', '.')}@grid.example`;
    const { code, stderr } = await workspace.auth0Setup(['--administrator', email], { ...variables, ...setup });
    await setUp();
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining(scope) as string });
  });

  it.each([
    ['an application', () => administer('POST /clients', { name: SERVICE }), 'There are 2 applications "load-data-service"; AUTH0_CLIENT_ID says which is meant.\n'],
  ])('stops when there are two of %s', async (_, double, message) => {
    await double();
    expect(await workspace.auth0Setup([], variables)).toMatchObject({ code: 1, stderr: expect.stringContaining(message) as string });
  });
});
