import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KeycloakIdentityProvider, type KeycloakOptions } from '../../src/identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
import { REALM_MANAGEMENT, SERVICE_RIGHTS } from '../../src/identity-management/adapters/out/keycloak/realm.js';
import { ProviderError, type ProviderMisconfigured } from '../../src/identity-management/domain/errors.js';
import { identityProviderContract } from '../../src/testing/identity-provider.contract.js';
import { isKeycloakAvailable, type Keycloak, startKeycloak } from '../servers/keycloak.mjs';
import { identityOperations } from '../support/identity-operations.js';
import { fresh, freshEmail, identityRequests } from '../support/identity-requests.js';
import { peopleAtKeycloak } from '../support/keycloak-people.js';
import { keycloakOptions, keycloakPermissionsOf, keycloakToken, keycloakVariables, testRealm } from '../support/keycloak-realm.js';
import { type RunningService, startService } from '../support/service.js';

const START_MS = 240_000;
const PATIENCE = { timeout: 10_000, interval: 250 };
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.source;
const UNKNOWN = '4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10';

describe.runIf(isKeycloakAvailable())('Keycloak', () => {
  let server: Keycloak;

  beforeAll(async () => {
    server = await startKeycloak({ realm: testRealm() });
  }, START_MS);
  afterAll(() => server.stop());

  let service: RunningService;
  const start = async () => {
    service = await startService(keycloakVariables(server.endpoint));
    return { url: service.url, token: await keycloakToken(server) };
  };

  identityOperations('Keycloak', {
    userId: `keycloak\\|${UUID}`,
    roleId: UUID,
    userPrefix: 'keycloak|',
    rolePrefix: '',
    unknownRoleId: UNKNOWN,
    // These are the longest names that Keycloak accepts: one more astral character in place of `a` would exceed its
    // limit.
    longestRoleName: `a${'😀'.repeat(127)}`,
    longestUserName: `a${'😀'.repeat(254)}`,
    start,
    stop: () => service.close(),
    permissionsOf: (userId) => keycloakPermissionsOf(server, userId),
    tokenOf: async (userId, username) => {
      const password = 'a password';
      await server.administer('PUT', `/users/${userId.replace('keycloak|', '')}/reset-password`, { type: 'password', value: password });
      return keycloakToken(server, { username, password });
    },
  });

  const open = () => new KeycloakIdentityProvider({ ...keycloakOptions(server.endpoint), usersPerPage: 20 });

  identityProviderContract('KeycloakIdentityProvider', () =>
    Promise.resolve({
      provider: open(),
      unknownUserId: `keycloak|${UNKNOWN}`,
      unknownRoleId: UNKNOWN,
      moreThanOnePage: 21,
      // This is the longest name that Keycloak accepts: one more astral character in place of `a` would exceed its
      // limit.
      longestName: `a${'😀'.repeat(254)}`,
      reopen: () => Promise.resolve(open()),
      permissionsOf: (userId) => keycloakPermissionsOf(server, userId),
      tearDown: () => undefined,
    }),
  );

  describe('the service', () => {
    const target = { url: '', token: '' };
    const { send, post, created, list } = identityRequests(target);
    beforeAll(async () => {
      Object.assign(target, await start());
    });
    afterAll(() => service.close());

    const permissions = ['assign:roles', 'read:roles'];
    it('has no issuer of its own', async () => {
      expect((await send('GET', '/idp/.well-known/openid-configuration')).status).toBe(404);
    });

    it("lists neither service accounts nor Keycloak's own roles, and does not assign these roles", async () => {
      const builtIn = (await server.administer('GET', '/roles')) as { id: string; name: string }[];
      const listed = await list('roles');
      const others = builtIn.filter(({ id }) => !listed.some(({ role_id }) => role_id === id));
      expect(others.map(({ name }) => name)).toEqual(expect.arrayContaining(['offline_access', 'uma_authorization', `default-roles-${testRealm().realm}`]));
      const [client] = (await server.administer('GET', `/clients?clientId=${keycloakOptions('').clientId}`)) as { id: string }[];
      const account = (await server.administer('GET', `/clients/${client?.id ?? ''}/service-account-user`)) as { id: string };
      expect((await list('users')).map(({ user_id }) => user_id)).not.toContain(`keycloak|${account.id}`);
      for (const { id } of others) {
        expect((await post('create-user', { email: freshEmail(), roles: [id] })).status).toBe(400);
      }
    });

    it('lists the users of others, and assigns a role that an administrator added', async () => {
      const email = freshEmail();
      const nameless = freshEmail();
      await server.administer('POST', '/users', { email, firstName: 'Grace', lastName: 'Hopper', enabled: true });
      await server.administer('POST', '/users', { email: nameless, enabled: true });
      const users = await list('users');
      expect(users).toContainEqual({ user_id: expect.anything() as string, name: 'Grace Hopper', email });
      expect(users).toContainEqual({ user_id: expect.anything() as string, name: nameless, email: nameless });
      await server.administer('POST', '/roles', { name: 'added', attributes: { load_data_role: ['true'] } });
      const [added] = (await list('roles')).filter(({ name }) => name === 'added');
      await created('create-user', { email: freshEmail(), roles: [added?.role_id] });
    });

    it.each<[string, string, object, number, number]>([
      ['renamed', 'PUT', { name: 'renamed' }, 200, 201],
      ['deleted', 'DELETE', {}, 400, 400],
      ['unmarked as a role of the service', 'PUT', { name: 'known', attributes: {} }, 400, 400],
    ])('handles a known role that was %s in the meantime', async (_, method, body, assigned, withIt) => {
      const role = { role_name: 'known', permissions };
      const roleId = await created('create-role', role);
      const userId = await created('create-user', { email: freshEmail(), roles: [] });
      await server.administer(method, `/roles-by-id/${roleId}`, body);
      // Creates another role with the former name of the known role. The name is free unless the known role has kept
      // it.
      expect((await post('create-role', { ...role, permissions: ['read:users'] })).status).toBe('attributes' in body ? 400 : 201);
      const email = freshEmail();
      expect((await post('assign-role', { user_id: userId, role_id: roleId })).status).toBe(assigned);
      expect((await post('create-user', { email, roles: [roleId] })).status).toBe(withIt);
      expect((await keycloakPermissionsOf(server, userId)).sort()).toEqual(assigned === 200 ? permissions : []);
      expect((await list('users')).filter((user) => user.email === email)).toHaveLength(withIt === 201 ? 1 : 0);
      for (const { id, name } of (await server.administer('GET', '/roles')) as { id: string; name: string }[]) {
        if (name === role.role_name) await server.administer('DELETE', `/roles-by-id/${id}`);
      }
    });

    it('assigns many roles at once, and none of them when one may not be assigned', async () => {
      const roleIds: string[] = [];
      while (roleIds.length < 33) roleIds.push(await created('create-role', { role_name: fresh(), permissions: ['read:users'] }));
      const rolesOf = async (userId: string) => {
        const roles = (await server.administer('GET', `/users/${userId.replace('keycloak|', '')}/role-mappings/realm`)) as { id: string; name: string }[];
        return roles.filter(({ name }) => !name.startsWith('default-roles-')).map(({ id }) => id);
      };
      for (const count of [9, 33]) {
        const userId = await created('create-user', { email: freshEmail(), roles: roleIds.slice(0, count) });
        expect((await rolesOf(userId)).sort()).toEqual(roleIds.slice(0, count).sort());
      }
      const builtIn = (await server.administer('GET', '/roles/offline_access')) as { id: string };
      for (const wrong of [builtIn.id, UNKNOWN]) {
        for (const count of [8, 32]) {
          const email = freshEmail();
          expect((await post('create-user', { email, roles: [...roleIds.slice(0, count), wrong] })).status).toBe(400);
          expect((await list('users')).filter((user) => user.email === email)).toEqual([]);
        }
        const userId = await created('create-user', { email: freshEmail(), roles: [] });
        expect((await post('assign-role', { user_id: userId, role_id: wrong })).status).toBe(400);
        expect(await rolesOf(userId)).toEqual([]);
      }
    });

    describe('in a realm that allows several users with the same e-mail', () => {
      const allow = (isAllowed: boolean) =>
        server.administer('PUT', '', { duplicateEmailsAllowed: isAllowed, loginWithEmailAllowed: !isAllowed, registrationEmailAsUsername: !isAllowed });
      beforeAll(() => allow(true));
      afterAll(() => allow(false));
      const having = async (email: string) => (await server.administer('GET', `/users?exact=true&email=${encodeURIComponent(email)}`)) as { username: string }[];

      it.each<[string, (email: string) => object]>([
        ['e-mail', (email) => ({ username: fresh(), email })],
        ['e-mail in another letter case', (email) => ({ username: fresh(), email: email.toUpperCase() })],
        ['username and e-mail', (email) => ({ username: email, email })],
      ])('creates no second user with the %s of another', async (_, other) => {
        const email = freshEmail();
        await server.administer('POST', '/users', { ...other(email), enabled: true });
        expect((await post('create-user', { email: email.toUpperCase(), roles: [] })).status).toBe(400);
        expect(await having(email)).toHaveLength(1);
      });

      it('creates exactly one of many simultaneous users', async () => {
        const email = freshEmail();
        const answers = await Promise.all(Array.from({ length: 8 }, () => post('create-user', { email, roles: [] })));
        expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 7 }, () => 400)]);
        expect(await having(email)).toHaveLength(1);
      });
    });

    describe('in a realm whose user profile drops values', () => {
      interface Attribute {
        readonly name: string;
        readonly permissions?: { view: string[]; edit: string[] };
      }
      interface Profile {
        readonly attributes: readonly Attribute[];
      }
      let before: Profile;
      beforeAll(async () => {
        before = (await server.administer('GET', '/users/profile')) as Profile;
      });
      afterEach(() => server.administer('PUT', '/users/profile', before));
      const LONG = `a${'😀'.repeat(254)}`;
      const users = async () => ((await server.administer('GET', '/users?max=-1')) as { username: string }[]).map(({ username }) => username).sort();

      it.each<[string, (attributes: readonly Attribute[]) => readonly Attribute[], string, number, string]>([
        ['firstName is absent', (all) => all.filter(({ name }) => name !== 'firstName'), 'Ada', 502, 'has no attribute firstName'],
        ['lastName is absent', (all) => all.filter(({ name }) => name !== 'lastName'), LONG, 502, 'has no attribute lastName'],
        [
          'firstName can be edited only by users',
          (all) => all.map((one) => (one.name === 'firstName' ? { ...one, permissions: { view: ['admin', 'user'], edit: ['user'] } } : one)),
          'Ada',
          // The service answers 400, because Keycloak itself refuses the new name.
          400,
          'does not let administrators edit firstName',
        ],
      ])('neither creates nor renames a user when %s, and reports why', async (_, change, name, renamed, problem) => {
        const userId = await created('create-user', { email: freshEmail(), roles: [] });
        const listed = await users();
        await server.administer('PUT', '/users/profile', { ...before, attributes: change(before.attributes) });
        expect((await post('create-user', { email: freshEmail(), name, roles: [] })).status).toBe(502);
        expect(await users()).toEqual(listed);
        expect((await post('update-user', { user_id: userId, new_name: name })).status).toBe(renamed);
        const health = new KeycloakIdentityProvider({ ...keycloakOptions(server.endpoint), checkedForMs: 0 });
        const problems = await health.checkHealth({ signal: new AbortController().signal }).then(() => [], (error: unknown) => (error as ProviderMisconfigured).problems);
        expect([...problems, ...health.warnings].join()).toContain(problem);
        await health.onApplicationShutdown();
      });

      it('creates a user without another name than the e-mail when names are dropped', async () => {
        await server.administer('PUT', '/users/profile', { ...before, attributes: before.attributes.filter(({ name }) => name !== 'firstName') });
        const email = freshEmail();
        await created('create-user', { email, roles: [] });
        expect(await list('users')).toContainEqual(expect.objectContaining({ email, name: email }));
      });

      it('creates no user when only users can edit the e-mail', async () => {
        const attributes = before.attributes.map((one) => (one.name === 'email' ? { ...one, permissions: { view: ['admin', 'user'], edit: ['user'] } } : one));
        const listed = await users();
        await server.administer('PUT', '/users/profile', { ...before, attributes });
        expect((await post('create-user', { email: freshEmail(), roles: [] })).status).toBe(502);
        expect(await users()).toEqual(listed);
      });
    });

    it.each<[string, (name: string) => boolean, number]>([
      ['deleted that are already listed', (name) => name < 'm', 0],
      ['deleted that are not listed yet', (name) => name > 'm', 0],
      ['created', () => false, 12],
      ['deleted and created', (name) => name < 'm', 6],
    ])('lists each user once while others are %s', async (_, isDeleted, creations) => {
      const of = (mark: string, index: number) => `${mark}${index}-${freshEmail()}`;
      const create = async (email: string) => ({ email, userId: await created('create-user', { email, roles: [] }) });
      const some = await Promise.all(Array.from({ length: 24 }, (_, index) => create(of(index % 2 ? 'a' : 'z', index))));
      const leaving = some.filter(({ email }) => isDeleted(email));
      const listed: string[] = [];
      const provider = new KeycloakIdentityProvider({ ...keycloakOptions(server.endpoint), usersPerPage: 5 });
      for await (const page of provider.listUsers({ signal: new AbortController().signal })) {
        listed.push(...page.map(({ userId }) => userId));
        for (const { userId } of leaving.splice(0, 3)) await server.administer('DELETE', `/users/${userId.replace('keycloak|', '')}`);
        for (let index = 0; index < 3 && creations > 0; index++, creations--) await create(of('0', index));
      }
      expect(new Set(listed).size).toBe(listed.length);
      const staying = some.filter(({ email }) => !isDeleted(email)).map(({ userId }) => userId);
      expect(listed).toEqual(expect.arrayContaining(staying));
    });
  });

  describe('a realm whose name needs encoding in a URL', () => {
    const realm = ".Lastgänge 'Nord' 100%~😀";
    beforeAll(() => server.createRealm({ ...testRealm(), realm }));

    it('has its tokens accepted, and its users and roles stored', async () => {
      const own = await startService({ ...keycloakVariables(server.endpoint), KEYCLOAK_REALM: realm });
      try {
        const body = new URLSearchParams({ grant_type: 'client_credentials', client_id: 'operator', client_secret: 'operator-secret' });
        const answer = await fetch(`${server.endpoint}/realms/${encodeURIComponent(realm)}/protocol/openid-connect/token`, { method: 'POST', body });
        const { access_token: token } = (await answer.json()) as { access_token: string };
        const { send, created, list } = identityRequests({ url: own.url, token });
        const roleId = await created('create-role', { role_name: 'auditor', permissions: ['read:users'] });
        const userId = await created('create-user', { email: freshEmail(), roles: [roleId] });
        expect(await list('users')).toContainEqual(expect.objectContaining({ user_id: userId }));
        expect((await send('GET', '/health/ready')).status).toBe(200);
      } finally {
        await own.close();
      }
    });
  });

  describe('a realm that is damaged while the service runs', () => {
    const { signal } = new AbortController();
    const provider = (options: Partial<KeycloakOptions>) => new KeycloakIdentityProvider({ ...keycloakOptions(server.endpoint), ...options });

    it.each(['an ordinary name', '..'])('gets no role named %s when its permissions cannot be added', async (name) => {
      const roles = async () => ((await server.administer('GET', '/roles')) as { name: string }[]).map((role) => role.name);
      const before = await roles();
      const creation = provider({ audience: 'deleted-api' }).createRole({ name, permissions: ['read:users'] }, { signal });
      await expect(creation).rejects.toThrow(ProviderError);
      expect(await roles()).toEqual(before);
    });

    it.each(SERVICE_RIGHTS)('makes the service report the missing right %s until it is granted again', async (right) => {
      const idOf = async (clientId: string) => ((await server.administer('GET', `/clients?clientId=${clientId}`)) as { id: string }[])[0]?.id ?? '';
      const realmManagement = await idOf(REALM_MANAGEMENT);
      const account = (await server.administer('GET', `/clients/${await idOf(keycloakOptions('').clientId)}/service-account-user`)) as { id: string };
      const mappings = `/users/${account.id}/role-mappings/clients/${realmManagement}`;
      const role = await server.administer('GET', `/clients/${realmManagement}/roles/${right}`);
      const health = provider({ checkedForMs: 0 });
      const problems = () => health.checkHealth({ signal }).then(() => [], (error: unknown) => (error as ProviderMisconfigured).problems);
      expect(await problems()).toEqual([]);
      await server.administer('DELETE', mappings, [role]);
      try {
        await expect.poll(problems, PATIENCE).toEqual([expect.stringContaining(`lacks the right ${right}`)]);
      } finally {
        await server.administer('POST', mappings, [role]);
      }
      await expect.poll(problems, PATIENCE).toEqual([]);
    });
  });

  peopleAtKeycloak(() => server);
});
