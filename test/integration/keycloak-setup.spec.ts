import { createHash, randomBytes } from 'node:crypto';
import { parseEnv } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../../src/authentication/permissions.js';
import { isKeycloakAvailable, type Keycloak, startKeycloak } from '../servers/keycloak.mjs';
import { Browser } from '../support/browser.js';
import { freshEmail, identityRequests } from '../support/identity-requests.js';
import { Workspace } from '../support/process.js';
import { type Findings, readiness } from '../support/readiness.js';
import { startService } from '../support/service.js';

const START_MS = 240_000;
const PATIENCE = { timeout: 10_000, interval: 250 };
const PUBLIC_URL = 'http://load.grid.example/load';
const REDIRECT = `${PUBLIC_URL}/docs/oauth2-redirect.html`;
const SERVICE = 'load-data-service';
const API = 'load-data-api';
const SWAGGER_UI = 'load-data-swagger-ui';
const ROLE = 'load-data-administrator';

interface Attribute {
  readonly name: string;
  readonly [member: string]: unknown;
}

interface Client {
  readonly clientId: string;
  readonly serviceAccountsEnabled?: boolean;
}

interface Profile {
  readonly attributes: readonly Attribute[];
  readonly [member: string]: unknown;
}

const PHONE: Attribute = { name: 'phone', multivalued: false, permissions: { view: ['admin'], edit: ['admin'] }, validations: { length: { max: 20 } } };
const NAME = { permissions: { view: ['admin', 'user'], edit: ['admin', 'user'] }, validations: { 'person-name-prohibited-characters': {}, length: { max: 255 } }, required: { roles: ['user'] } };
const PROFILE: Profile = {
  unmanagedAttributePolicy: 'ADMIN_VIEW',
  groups: [{ name: 'contact', displayHeader: 'Contact' }],
  attributes: [
    { name: 'username', validations: { length: { min: 3, max: 255 }, 'username-prohibited-characters': {} } },
    { name: 'email', validations: { email: {} } },
    { name: 'firstName', ...NAME },
    { name: 'lastName', ...NAME, displayName: 'Family name' },
    PHONE,
  ],
};

/** A realm that other applications use too: it has users, roles and a client of theirs. */
const OTHERS = {
  realm: 'loads',
  enabled: true,
  groups: [{ name: 'staff', attributes: { floor: ['2'] } }],
  roles: { realm: [{ name: 'auditor' }], client: { shop: [{ name: 'buyer' }] } },
  clients: [{ clientId: 'shop', publicClient: true, redirectUris: ['http://shop.example/*'], webOrigins: ['http://shop.example'] }],
  users: [{ username: 'grace', email: 'grace@grid.example', firstName: 'Grace', enabled: true, realmRoles: ['auditor'], groups: ['/staff'] }],
  components: {
    'org.keycloak.userprofile.UserProfileProvider': [
      { providerId: 'declarative-user-profile', config: { 'kc.user.profile.config': [JSON.stringify(PROFILE)] } },
    ],
  },
};

describe.runIf(isKeycloakAvailable())('npm run keycloak:setup', { timeout: 60_000 }, () => {
  let server: Keycloak;
  let workspace: Workspace;
  let variables: Record<string, string>;

  beforeAll(async () => {
    server = await startKeycloak({ realm: OTHERS });
    workspace = await Workspace.create();
    const administrator = { KEYCLOAK_ADMIN_USERNAME: 'admin', KEYCLOAK_ADMIN_PASSWORD: 'admin-secret' };
    variables = { KEYCLOAK_URL: server.endpoint, KEYCLOAK_REALM: 'loads', PUBLIC_URL, ...administrator };
  }, START_MS);
  afterAll(async () => {
    await workspace.dispose();
    await server.stop();
  });

  /**
   * Runs the set-up of the realm, which must succeed. Resolves to its changes, its messages and the environment that it
   * prints.
   */
  async function setUp(...parameters: string[]): Promise<{ changes: string[]; notes: string; environment: Record<string, string> }> {
    const { code, stdout, stderr } = await workspace.keycloakSetup(parameters, variables);
    expect(code, stderr).toBe(0);
    const changes = stderr.split('\n').filter((line) => /^[+~] /.test(line));
    return { changes, notes: stderr, environment: parseEnv(stdout) as Record<string, string> };
  }

  const get = <Result>(path: string) => server.administer('GET', path) as Promise<Result>;
  const named = async (path: string, name: string) => (await get<{ id: string; name: string }[]>(path)).find((one) => one.name === name) ?? { id: '', name };
  const clientPath = async (clientId: string) => `/clients/${(await get<{ id: string }[]>(`/clients?clientId=${clientId}`))[0]?.id ?? ''}`;
  const scopePath = async () => `/client-scopes/${(await named('/client-scopes', API)).id}`;
  const rightsPath = async () => {
    const { id } = await get<{ id: string }>(`${await clientPath(SERVICE)}/service-account-user`);
    return `/users/${id}/role-mappings${await clientPath('realm-management')}`;
  };
  const alter = (attribute: string, change: (attribute: Attribute) => Attribute | undefined) => async () => {
    const profile = await get<Profile>('/users/profile');
    const attributes = profile.attributes.map((one) => (one.name === attribute ? change(one) : one)).filter(Boolean);
    await server.administer('PUT', '/users/profile', { ...profile, attributes });
  };
  const takeRight = (right: string) => async () => {
    const path = await rightsPath();
    await server.administer('DELETE', path, [await named(path, right)]);
  };

  /** The complete contents of the realm, without ids and other unique values. */
  async function contents(): Promise<unknown> {
    const exported = server.administer('POST', '/partial-export?exportClients=true&exportGroupsAndRoles=true') as Promise<{ clients: Client[] }>;
    const [realm, users, profile] = await Promise.all([exported, get<{ id: string; username: string }[]>('/users?briefRepresentation=true'), get('/users/profile')]);
    const roles = await Promise.all(users.map(({ id }) => get(`/users/${id}/role-mappings`)));
    const service = realm.clients.find(({ clientId }) => clientId === SERVICE);
    const rights = service?.serviceAccountsEnabled ? await get(await rightsPath()) : [];
    // Leaves out the default scopes of the service's client and the API's client. They don't matter, because no user
    // logs in with these two clients.
    const clients = realm.clients.map((client) => ([SERVICE, API].includes(client.clientId) ? { ...client, defaultClientScopes: [] } : client));
    return plain({ realm: { ...realm, clients, components: undefined }, users: users.map(({ username }) => username), roles, rights, profile });
  }

  it('keeps the objects of others in the realm', async () => {
    const before = (await contents()) as Record<string, Record<string, unknown>>;
    const { changes } = await setUp();
    expect(changes).toEqual([
      `+ client ${API}`,
      ...PERMISSIONS.map((permission) => `+ permission ${permission}`),
      `+ client scope ${API}`,
      '+ user profile: customer_id',
      '~ user profile: username without username-prohibited-characters',
      '~ user profile: firstName without person-name-prohibited-characters',
      '~ user profile: lastName without person-name-prohibited-characters',
      '~ user profile: lastName not required',
      `+ client ${SERVICE}`,
      ...['manage-users', 'manage-realm', 'manage-clients'].map((right) => `+ right ${right} of client ${SERVICE}`),
      `+ client ${SWAGGER_UI}`,
      `+ role ${ROLE}`,
    ]);
    const after = (await contents()) as Record<string, Record<string, unknown>>;
    for (const part of ['clients', 'clientScopes', 'groups', 'defaultDefaultClientScopes', 'defaultOptionalClientScopes']) {
      expect(after.realm?.[part]).toEqual(expect.arrayContaining(before.realm?.[part] as unknown[]));
    }
    expect({ users: after.users, roles: after.roles }).toEqual({ users: before.users, roles: before.roles });
    const { attributes, ...rest } = await get<Profile>('/users/profile');
    expect(rest).toMatchObject({ unmanagedAttributePolicy: 'ADMIN_VIEW', groups: PROFILE.groups });
    expect(attributes).toContainEqual(PHONE);
    expect(attributes).toContainEqual(expect.objectContaining({ name: 'lastName', displayName: 'Family name', validations: { length: { max: 255 } } }));
  });

  it('reports rights that the service does not need, and leaves them', async () => {
    const path = await rightsPath();
    const role = await named(`${path}/available`, 'realm-admin');
    await server.administer('POST', path, [role]);
    const { changes, notes } = await setUp();
    expect(changes).toEqual([]);
    expect(notes).toContain(`! client ${SERVICE} does not need the right realm-admin\n`);
    expect(await get<unknown[]>(path)).toHaveLength(4);
  });

  it('gives its client the configured secret, and leaves an existing one unchanged', async () => {
    await server.administer('DELETE', await clientPath(SERVICE));
    const chosen = { ...variables, KEYCLOAK_CLIENT_SECRET: 'chosen before' };
    const first = await workspace.keycloakSetup([], chosen);
    expect(parseEnv(first.stdout)).toMatchObject({ KEYCLOAK_CLIENT_SECRET: 'chosen before' });
    expect(first.stderr).not.toContain('! client');
    const second = await workspace.keycloakSetup([], { ...variables, KEYCLOAK_CLIENT_SECRET: 'another' });
    expect(parseEnv(second.stdout)).toMatchObject({ KEYCLOAK_CLIENT_SECRET: 'chosen before' });
    expect(second.stderr).toContain(`! client ${SERVICE} has another secret than KEYCLOAK_CLIENT_SECRET\n`);
    expect([first.code, second.code]).toEqual([0, 0]);
  });

  it('assigns the role to an existing user', async () => {
    const { changes, notes } = await setUp('--administrator', 'grace@grid.example');
    expect(changes).toEqual([`+ role ${ROLE} of user grace@grid.example`]);
    expect(notes).not.toContain('password');
    const [grace] = await get<{ id: string }[]>('/users?exact=true&email=grace@grid.example');
    const roles = (await get<{ name: string }[]>(`/users/${grace?.id ?? ''}/role-mappings/realm`)).map(({ name }) => name);
    expect(roles.sort()).toEqual(['auditor', ROLE]);
  });

  const UPDATE = ['UPDATE_PASSWORD'];
  const TEMPORARY = [{ type: 'password', value: 'from somebody else', temporary: true }];
  it.each<[string, boolean, object]>([
    ['must set a password and has none', true, { requiredActions: UPDATE }],
    ['has a temporary password', false, { requiredActions: UPDATE, credentials: TEMPORARY }],
    ['has no password and need not set one', false, {}],
  ])('creates a password for an administrator who %s: %s, and then changes nothing', async (_, isShown, members) => {
    const email = freshEmail();
    await server.administer('POST', '/users', { username: email, email, firstName: email, enabled: true, ...members });
    const [user] = await get<{ id: string }[]>(`/users?exact=true&email=${email}`);
    const credentials = () => get<unknown[]>(`/users/${user?.id ?? ''}/credentials`);
    const before = await credentials();
    const first = await setUp('--administrator', email);
    expect(first.changes).toEqual([...(isShown ? [`+ password of user ${email}`] : []), `+ role ${ROLE} of user ${email}`]);
    expect(new RegExp(`^The password of ${email} is \\S+ until the first login\\.$`, 'm').test(first.notes)).toBe(isShown);
    if (!isShown) expect(await credentials()).toEqual(before);
    const second = await setUp('--administrator', email);
    expect({ changes: second.changes, hasPassword: second.notes.includes('password of') }).toEqual({ changes: [], hasPassword: false });
  });

  it('creates a realm from nothing, with an environment for the service, and an administrator with all permissions', async () => {
    // A repeated test may find no realm.
    await server.administer('DELETE', '').catch((error: unknown) => { if (!String(error).includes('404')) throw error; });
    const early = await startService({ ...serviceAt(server.endpoint), KEYCLOAK_CLIENT_SECRET: 'unknown yet' });
    const email = 'ada@grid.example';
    try {
      expect(await readiness(early.url)).toEqual({ status: 503, problems: ['There is no realm "loads" (KEYCLOAK_REALM).'] });
    } finally {
      await early.close();
    }
    const planned = await setUp('--administrator', email, '--dry-run');
    expect(planned.environment).toEqual({});
    const made = await setUp('--administrator', 'Ada@grid.example');
    expect(made.changes).toEqual(planned.changes);
    expect(made.changes).toEqual(expect.arrayContaining(['+ realm loads', `+ user ${email}`, `+ role ${ROLE} of user ${email}`]));

    const { origin } = await workspace.start(made.environment);
    expect(await readiness(origin)).toEqual({ status: 200 });
    const [, password = ''] = /password of ada@grid\.example is (\S+)/.exec(made.notes) ?? [];
    const { post, created, list } = identityRequests({ url: origin, token: await firstToken(email, password) });
    const roleId = await created('create-role', { role_name: 'Auditor', permissions: ['read:users'] });
    const userId = await created('create-user', { email: "o'brien@grid.example", name: 'Flann (O’Brien)', roles: [] });
    expect((await post('assign-role', { user_id: userId, role_id: roleId })).status).toBe(200);
    expect((await post('update-user', { user_id: userId, new_name: 'Myles <na gCopaleen>' })).status).toBe(200);
    expect(await list('users')).toContainEqual({ user_id: userId, name: 'Myles <na gCopaleen>', email: "o'brien@grid.example" });
    expect((await list('roles')).map(({ name }) => name).sort()).toEqual(['Auditor', ROLE]);

    const before = await contents();
    const again = await setUp('--administrator', email);
    expect(again.changes).toEqual([]);
    expect(again.notes).toMatch(/^Nothing to change\.$/m);
    expect(again.notes).not.toContain('password');
    expect(again.environment).toEqual(made.environment);
    expect(await contents()).toEqual(before);
  });

  /**
   * Logs a user in for the first time like a browser, with the client of Swagger UI. Resolves to the user's access
   * token.
   */
  async function firstToken(username: string, password: string): Promise<string> {
    const verifier = randomBytes(32).toString('base64url');
    const challenge = { code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256' };
    const query = { response_type: 'code', client_id: SWAGGER_UI, redirect_uri: REDIRECT };
    const address = `${server.endpoint}/realms/loads/protocol/openid-connect`;
    const browser = new Browser(server.endpoint);
    const refused = await browser.open(`${address}/auth?${new URLSearchParams(query).toString()}`);
    expect(refused.url).toMatch(/error=invalid_request&error_description=Missing\+parameter%3A\+code_challenge_method/);

    const login = await browser.open(`${address}/auth?${new URLSearchParams({ ...query, ...challenge }).toString()}`);
    const demand = await browser.submit(login, { username, password });
    const { url } = await browser.submit(demand, { 'password-new': 'of her own', 'password-confirm': 'of her own' });
    const grant = { grant_type: 'authorization_code', code: new URL(url).searchParams.get('code') ?? '', code_verifier: verifier };
    const body = new URLSearchParams({ ...grant, client_id: SWAGGER_UI, redirect_uri: REDIRECT });
    const response = await fetch(`${address}/token`, { method: 'POST', body, headers: { origin: new URL(PUBLIC_URL).origin } });
    expect(response.headers.get('access-control-allow-origin')).toBe(new URL(PUBLIC_URL).origin);
    return ((await response.json()) as { access_token: string }).access_token;
  }

  const problem = (line: string) => ({ status: 503, problems: [line] });
  const warning = (line: string) => ({ status: 200, warnings: [line] });
  const rights = ['manage-users', 'manage-realm', 'manage-clients'];
  const lacksRight = (right: string) => `The service account of the client "${SERVICE}" lacks the right ${right}.`;
  const remove = (path: () => Promise<string>) => async () => server.administer('DELETE', await path());
  const put = (path: () => Promise<string>, body: object) => async () => server.administer('PUT', await path(), body);
  const mapperPath = async (mapper: string) => {
    const path = `${await scopePath()}/protocol-mappers/models`;
    return `${path}/${(await named(path, mapper)).id}`;
  };
  const alterMapper = (mapper: string, config: object) => async () => {
    // Gets the complete mapper from the list of client scopes first, so that the PUT changes only the given
    // configuration.
    const { protocolMappers } = (await named('/client-scopes', API)) as { protocolMappers?: { name: string; config: object }[] };
    const present = protocolMappers?.find(({ name }) => name === mapper);
    await server.administer('PUT', await mapperPath(mapper), { ...present, config: { ...present?.config, ...config } });
  };

  /**
   * The possible defects of a realm. For each: its name, how to cause it, what the service's readiness then reports,
   * and the changes that the set-up prints when it fixes the defect.
   */
  const DEFECTS: [string, () => Promise<unknown>, { status: number }, string[]][] = [
    ['the realm is disabled', put(() => Promise.resolve(''), { enabled: false }), problem('The realm "loads" is disabled.'), ['~ realm loads: enabled']],
    [
      'the client of the API is missing',
      remove(() => clientPath(API)),
      problem(`There is no client "${API}" (OIDC_AUDIENCE).`),
      [`+ client ${API}`, ...PERMISSIONS.map((one) => `+ permission ${one}`), ...PERMISSIONS.map((one) => `+ permission ${one} of role ${ROLE}`)],
    ],
    [
      'the service has no service account',
      put(() => clientPath(SERVICE), { serviceAccountsEnabled: false }),
      problem(`The client "${SERVICE}" has no service account.`),
      [`~ client ${SERVICE}: serviceAccountsEnabled`, ...rights.map((right) => `+ right ${right} of client ${SERVICE}`)],
    ],
    [
      'the client of the service is disabled',
      put(() => clientPath(SERVICE), { enabled: false }),
      problem(`There is no client "${SERVICE}" (KEYCLOAK_CLIENT_ID), or it is disabled.`),
      [`~ client ${SERVICE}: enabled`],
    ],
    ...rights.map((right): (typeof DEFECTS)[number] => [`the service lacks ${right}`, takeRight(right), problem(lacksRight(right)), [`+ right ${right} of client ${SERVICE}`]]),
    [
      'the service lacks all rights',
      async () => {
        for (const right of rights) await takeRight(right)();
      },
      { status: 503, problems: rights.map(lacksRight) } as { status: number },
      rights.map((right) => `+ right ${right} of client ${SERVICE}`),
    ],
    [
      'a permission is missing',
      remove(async () => `${await clientPath(API)}/roles/read:users`),
      warning(`The client "${API}" has no role "read:users".`),
      ['+ permission read:users', `+ permission read:users of role ${ROLE}`],
    ],
    [
      'the client scope is missing',
      remove(scopePath),
      warning(`There is no client scope "${API}".`),
      [`+ client scope ${API}`, `+ client scope ${API} of client ${SWAGGER_UI}`],
    ],
    [
      'the client scope is not a default',
      remove(async () => `/default-default-client-scopes/${(await named('/client-scopes', API)).id}`),
      warning(`The client scope "${API}" is no default of the realm.`),
      [`~ client scope ${API}: a default`],
    ],
    [
      'tokens do not contain the audience',
      remove(() => mapperPath('audience')),
      warning(`The client scope "${API}" does not put audience into tokens.`),
      [`+ client scope ${API}: audience`],
    ],
    [
      'access tokens do not contain customers',
      alterMapper('customer_id', { 'access.token.claim': 'false' }),
      warning(`The client scope "${API}" does not put customer_id into tokens.`),
      [`~ client scope ${API}: customer_id`],
    ],
    [
      'the user profile requires last names from administrators',
      alter('lastName', (attribute) => ({ ...attribute, required: { roles: ['admin'] } })),
      problem('The user profile requires a last name.'),
      ['~ user profile: lastName not required'],
    ],
    [
      'the user profile requires last names from users',
      alter('lastName', (attribute) => ({ ...attribute, required: { roles: ['user'] } })),
      warning('The user profile requires a last name.'),
      ['~ user profile: lastName not required'],
    ],
    [
      'the user profile rejects names',
      alter('firstName', (attribute) => ({ ...attribute, validations: { length: { max: 40 }, 'person-name-prohibited-characters': {} } })),
      warning('The user profile refuses values of firstName (length, person-name-prohibited-characters).'),
      ['~ user profile: firstName without length, person-name-prohibited-characters'],
    ],
    [
      'the user profile has no attribute for customers',
      alter('customer_id', () => undefined),
      warning('The user profile has no attribute customer_id.'),
      ['+ user profile: customer_id'],
    ],
    [
      'users can edit their customers',
      alter('customer_id', (attribute) => ({ ...attribute, permissions: { view: ['admin'], edit: ['admin', 'user'] } })),
      warning('The user profile lets users edit their customer_id.'),
      ['~ user profile: customer_id not editable by users'],
    ],
    [
      'the user profile requires another attribute from administrators',
      alter('customer_id', (attribute) => ({ ...attribute, required: { roles: ['admin'] } })),
      problem('The user profile requires customer_id.'),
      ['~ user profile: customer_id not required'],
    ],
    [
      'the tokens of the service do not contain its rights',
      put(() => clientPath(SERVICE), { fullScopeAllowed: false }),
      { status: 503, problems: rights.map(lacksRight) } as { status: number },
      [`~ client ${SERVICE}: fullScopeAllowed`],
    ],
    ['the client of Swagger UI is missing', remove(() => clientPath(SWAGGER_UI)), warning(`There is no client "${SWAGGER_UI}" (SWAGGER_UI_CLIENT_ID).`), [`+ client ${SWAGGER_UI}`]],
    [
      'the client of Swagger UI has another address and does not require PKCE',
      put(() => clientPath(SWAGGER_UI), { redirectUris: [], attributes: { 'pkce.code.challenge.method': '' }, directAccessGrantsEnabled: true }),
      { status: 200 },
      [`~ client ${SWAGGER_UI}: directAccessGrantsEnabled, attributes, redirectUris`],
    ],
    ['the role of administrators is unmarked', put(() => Promise.resolve(`/roles/${ROLE}`), { name: ROLE, attributes: {} }), { status: 200 }, [`~ role ${ROLE}: load_data_role`]],
  ];

  describe('when', () => {
    let environment: Record<string, string>;
    let whole: unknown;
    beforeAll(async () => {
      await server.administer('DELETE', '');
      ({ environment } = await setUp());
      whole = await contents();
    });

    it.each(DEFECTS)('%s, the service reports it, and the set-up repairs it and nothing else', async (_, spoil, reported, changes) => {
      await spoil();
      const service = await startService(environment);
      const origin = `http://127.0.0.1:${service.port}`;
      try {
        expect([await readiness(origin), await readiness(origin)]).toEqual([reported, reported]);
        expect((await fetch(`${origin}/health/live`)).status).toBe(200);
        // A dry run can only find something else where a change depends on an earlier one.
        if (changes.length > 1) {
          const spoilt = await contents();
          expect((await setUp('--dry-run')).changes).toEqual(changes);
          expect(await contents()).toEqual(spoilt);
        }
        expect((await setUp()).changes).toEqual(changes);
        await expect.poll(() => readiness(origin), PATIENCE).toEqual({ status: 200 });
        expect(await contents()).toEqual(whole);
        const { problems = [], warnings = [] } = reported as Findings;
        for (const line of [...problems, ...warnings]) {
          expect(service.log.entries.filter(({ text }) => text.includes(JSON.stringify(`identity_provider: ${line}`)))).toHaveLength(1);
        }
      } finally {
        await service.close();
      }
    });

    it.each<[string, () => Record<string, string>, { status: number }]>([
      ['the secret is wrong', () => ({ KEYCLOAK_CLIENT_SECRET: 'another' }), problem(`KEYCLOAK_CLIENT_SECRET is not the secret of the client "${SERVICE}".`)],
      ['the client does not exist', () => ({ KEYCLOAK_CLIENT_ID: 'another' }), problem('There is no client "another" (KEYCLOAK_CLIENT_ID), or it is disabled.')],
      [
        'Keycloak uses another name for itself',
        () => ({ KEYCLOAK_URL: server.endpoint.replace('127.0.0.1', 'localhost') }),
        problem('Keycloak issues tokens as "ENDPOINT/realms/loads", but the service expects "LOCALHOST/realms/loads" (OIDC_ISSUER).'),
      ],
      [
        'tokens have another issuer',
        () => ({ OIDC_ISSUER: 'https://login.grid.example' }),
        warning('Keycloak issues tokens as "ENDPOINT/realms/loads", but the service expects "https://login.grid.example" (OIDC_ISSUER).'),
      ],
    ])('%s, the service reports it', async (_, other, reported) => {
      const service = await startService({ ...environment, ...other() });
      const line = (text: string) => text.replace('ENDPOINT', server.endpoint).replace('LOCALHOST', server.endpoint.replace('127.0.0.1', 'localhost'));
      try {
        expect(await readiness(`http://127.0.0.1:${service.port}`)).toEqual(JSON.parse(line(JSON.stringify(reported))));
      } finally {
        await service.close();
      }
    });

    it('a client is deleted from a healthy realm, the service reports it, and recovers without a restart', async () => {
      const service = await startService(environment);
      const origin = `http://127.0.0.1:${service.port}`;
      try {
        expect(await readiness(origin)).toEqual({ status: 200 });
        await server.administer('DELETE', await clientPath(API));
        await expect.poll(() => readiness(origin), PATIENCE).toEqual(problem(`There is no client "${API}" (OIDC_AUDIENCE).`));
        await setUp();
        await expect.poll(() => readiness(origin), PATIENCE).toEqual({ status: 200 });
        await server.administer('PUT', await clientPath(SERVICE), { secret: 'another' });
        await server.administer('DELETE', await clientPath(API));
        await expect.poll(() => readiness(origin), PATIENCE).toEqual(problem(`KEYCLOAK_CLIENT_SECRET is not the secret of the client "${SERVICE}".`));
        await server.administer('PUT', await clientPath(SERVICE), { secret: environment.KEYCLOAK_CLIENT_SECRET });
        await setUp();
        await expect.poll(() => readiness(origin), PATIENCE).toEqual({ status: 200 });
      } finally {
        await service.close();
      }
    });

    it('the client of the service is missing, the set-up creates another with another secret', async () => {
      await server.administer('DELETE', await clientPath(SERVICE));
      const made = await setUp();
      expect(made.changes).toEqual([`+ client ${SERVICE}`, ...rights.map((right) => `+ right ${right} of client ${SERVICE}`)]);
      expect(made.environment.KEYCLOAK_CLIENT_SECRET).not.toBe(environment.KEYCLOAK_CLIENT_SECRET);
      const service = await startService(made.environment);
      expect(await readiness(`http://127.0.0.1:${service.port}`)).toEqual({ status: 200 });
      await service.close();
    });

    it('PUBLIC_URL is not set, the set-up repairs the client of Swagger UI but leaves its addresses unchanged', async () => {
      await server.administer('PUT', await clientPath(SWAGGER_UI), { directAccessGrantsEnabled: true });
      const { code, stderr } = await workspace.keycloakSetup([], { ...variables, PUBLIC_URL: '', PORT: '3000' });
      expect({ code, changes: stderr.match(/^[+~] .*/gm) }).toEqual({ code: 0, changes: [`~ client ${SWAGGER_UI}: directAccessGrantsEnabled`] });
      const [client] = await get<Record<string, unknown>[]>(`/clients?clientId=${SWAGGER_UI}`);
      expect(client).toMatchObject({ baseUrl: `${PUBLIC_URL}/docs`, redirectUris: [REDIRECT], webOrigins: [new URL(PUBLIC_URL).origin] });
    });

    it('the secret has special characters, the printed environment contains them correctly', async () => {
      const secret = `a "b" #c 'd' $e\\n`;
      await server.administer('PUT', await clientPath(SERVICE), { secret });
      expect((await setUp()).environment.KEYCLOAK_CLIENT_SECRET).toBe(secret);
    });

    it('the client of the service is to be replaced, the set-up creates a second one, and services with either are ready', async () => {
      const { environment: first } = await setUp();
      const second = await workspace.keycloakSetup([], { ...variables, ...first, KEYCLOAK_CLIENT_ID: 'second', KEYCLOAK_CLIENT_SECRET: '' });
      expect(second.stderr).toContain('+ client second\n');
      const services = [await startService(first), await startService(parseEnv(second.stdout) as Record<string, string>)] as const;
      const readinessOf = async (service: { readonly port: number }) => readiness(`http://127.0.0.1:${service.port}`);
      for (const service of services) expect(await readinessOf(service)).toEqual({ status: 200 });
      await services[0].close();
      await server.administer('DELETE', await clientPath(SERVICE));
      expect(await readinessOf(services[1])).toEqual({ status: 200 });
      await services[1].close();
      await server.administer('DELETE', await clientPath('second'));
      await setUp();
    });
  });

  it('asks for the administrator on a terminal, and shows no password', async () => {
    const program = workspace.onTerminal('keycloak-setup', '--dry-run', { ...variables, KEYCLOAK_ADMIN_USERNAME: '', KEYCLOAK_ADMIN_PASSWORD: '' });
    await program.answer("Keycloak's administrator: ", 'admin');
    await program.answer('Password: ', 'admin-secret');
    expect(await program.exited).toMatchObject({ code: 0 });
    expect(program.stdout).toContain('Nothing to change.');
    expect(program.stdout).not.toContain('admin-secret');
  });

  it('ends with one line when the administrator has no rights', async () => {
    const credentials = [{ type: 'password', value: 'x-secret' }];
    // Creates a user without rights in Keycloak's own realm, `master`.
    await server.administer('POST', '/../master/users', { username: 'guest', enabled: true, email: 'guest@grid.example', firstName: 'A', lastName: 'B', credentials });
    const guest = { KEYCLOAK_ADMIN_USERNAME: 'guest', KEYCLOAK_ADMIN_PASSWORD: 'x-secret' };
    const { code, stdout, stderr } = await workspace.keycloakSetup([], { ...variables, ...guest });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toBe("The administrator's rights don't suffice: Keycloak answers GET / with 403.\n");
  });

  it.each<[string, string[], () => Record<string, string>, number, RegExp]>([
    ['a password is the value of an argument', ['--password', 'x-secret'], () => ({}), 2, /^There is an unknown argument; credentials come from .*\(usage: .*\)\n$/],
    ['a password is an argument itself', ['x-secret'], () => ({}), 2, /^There is an unknown argument; credentials come from .*\(usage: .*\)\n$/],
    ['the administrator is not an e-mail', ['--administrator', 'ada:x-secret'], () => ({}), 2, /^--administrator must be an e-mail address \(usage: .*\)\n$/],
    ['the realm is malformed', [], () => ({ KEYCLOAK_REALM: 'a/b' }), 1, /^KEYCLOAK_REALM: must be the name of a realm.*\n$/],
    ["the realm is Keycloak's own", [], () => ({ KEYCLOAK_REALM: 'master' }), 1, /^KEYCLOAK_REALM: must be another realm.*\n$/],
    ['variables are missing', [], () => ({ KEYCLOAK_URL: '', KEYCLOAK_REALM: '' }), 1, /^KEYCLOAK_URL: must be set\nKEYCLOAK_REALM: must be set\n$/],
    ['there is no terminal to ask for the password', [], () => ({ KEYCLOAK_ADMIN_PASSWORD: '' }), 1, /^There is no terminal to ask on, so .*\n$/],
    ['Keycloak is unreachable', [], () => ({ KEYCLOAK_URL: 'http://127.0.0.1:1' }), 1, /^Keycloak does not answer .*ECONNREFUSED.*\n$/],
    ['the URL is not of a Keycloak', [], () => ({ KEYCLOAK_URL: `${server.endpoint}/elsewhere` }), 1, /^There is no Keycloak at http:.*\/elsewhere\.\n$/],
    ['the password is wrong', [], () => ({ KEYCLOAK_ADMIN_PASSWORD: 'x-secret' }), 1, /^Keycloak does not accept the administrator: Invalid user credentials\.\n$/],
  ])('ends with one line for each problem when %s', async (_, parameters, other, status, message) => {
    const { code, stdout, stderr } = await workspace.keycloakSetup(parameters, { ...variables, ...other() });
    expect({ code, stdout }).toEqual({ code: status, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('x-secret');
  });
});

const serviceAt = (url: string): Record<string, string> => ({
  IDENTITY_PROVIDER: 'keycloak',
  KEYCLOAK_URL: url,
  KEYCLOAK_REALM: 'loads',
  KEYCLOAK_CLIENT_ID: SERVICE,
});

const PASSING = ['id', 'containerId', '_id', 'client.secret.creation.time', 'createdTimestamp'];

/**
 * A copy of a value without ids and other values that differ from realm to realm, and with sorted lists, for
 * comparisons.
 */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain).sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => !PASSING.includes(name));
  return Object.fromEntries(entries.sort().map(([name, inner]) => [name, plain(inner)]));
}
