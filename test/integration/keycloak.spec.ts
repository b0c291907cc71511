import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KeycloakIdentityProvider, type KeycloakOptions } from '../../src/identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
import { REALM_MANAGEMENT, SERVICE_RIGHTS } from '../../src/identity-management/adapters/out/keycloak/realm.js';
import { ProviderError, type ProviderMisconfigured } from '../../src/identity-management/domain/errors.js';
import { identityProviderContract } from '../../src/testing/identity-provider.contract.js';
import { isKeycloakAvailable, type Keycloak, startKeycloak } from '../servers/keycloak.mjs';
import { identityOperations } from '../support/identity-operations.js';
import { freshEmail, identityRequests } from '../support/identity-requests.js';
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
    // One astral character more, and Keycloak has no room.
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
      // One more of the latter, and Keycloak has no room.
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

    it("lists nobody's service account, and no role of Keycloak's own, nor gives one away", async () => {
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

    it('lists what others have made, and gives a role that an administrator has added', async () => {
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
    ])('meets a role that it knows and that was %s meanwhile', async (_, method, body, assigned, withIt) => {
      const role = { role_name: 'known', permissions };
      const roleId = await created('create-role', role);
      const userId = await created('create-user', { email: freshEmail(), roles: [] });
      await server.administer(method, `/roles-by-id/${roleId}`, body);
      // Who has its name by now is another one.
      await created('create-role', { ...role, permissions: ['read:users'] });
      const email = freshEmail();
      expect((await post('assign-role', { user_id: userId, role_id: roleId })).status).toBe(assigned);
      expect((await post('create-user', { email, roles: [roleId] })).status).toBe(withIt);
      expect((await keycloakPermissionsOf(server, userId)).sort()).toEqual(assigned === 200 ? permissions : []);
      expect((await list('users')).filter((user) => user.email === email)).toHaveLength(withIt === 201 ? 1 : 0);
      for (const { role_id: id, name } of await list('roles')) {
        if (name === role.role_name) await server.administer('DELETE', `/roles-by-id/${String(id)}`);
      }
    });

    it.each<[string, (name: string) => boolean, number]>([
      ['deleted that were listed', (name) => name < 'm', 0],
      ['deleted that are to come', (name) => name > 'm', 0],
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

  describe('a realm that loses something while the service runs', () => {
    const { signal } = new AbortController();
    const provider = (options: Partial<KeycloakOptions>) => new KeycloakIdentityProvider({ ...keycloakOptions(server.endpoint), ...options });

    it.each(['an ordinary name', '..'])('has no role called %s whose permissions it could not take', async (name) => {
      const roles = async () => ((await server.administer('GET', '/roles')) as { name: string }[]).map((role) => role.name);
      const before = await roles();
      const creation = provider({ audience: 'deleted-api' }).createRole({ name, permissions: ['read:users'] }, { signal });
      await expect(creation).rejects.toThrow(ProviderError);
      expect(await roles()).toEqual(before);
    });

    it.each(SERVICE_RIGHTS)('says that the service lacks the right %s, until it has it again', async (right) => {
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
});
