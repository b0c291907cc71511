import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import { auth0ProviderContract, openAuth0Provider } from '../../../../../test/support/auth0-provider.js';
import { inVirtualTime } from '../../../../../test/support/virtual-time.js';
import { type Auth0Exchange, type Auth0Settings, type Auth0StandIn, SERVICE_SCOPES, startAuth0StandIn } from '../../../../testing/index.js';
import { ProviderError, ProviderMisconfigured, ProviderUnavailable, RoleNotFound, UserNotFound } from '../../../domain/errors.js';
import type { User } from '../../../domain/user.js';
import { Auth0IdentityProvider } from './auth0.identity-provider.adapter.js';

auth0ProviderContract('a tenant that refuses unknown roles', {});

describe('Auth0IdentityProvider', () => {
  const options = { signal: new AbortController().signal };
  let tenant: Auth0StandIn;
  let provider: Auth0IdentityProvider;
  let onExchange: ((exchange: Auth0Exchange) => unknown) | undefined;

  beforeEach(async () => {
    onExchange = undefined;
    tenant = await startAuth0StandIn({ onExchange: (exchange) => onExchange?.(exchange) });
    provider = openAuth0Provider(tenant);
  });
  afterEach(async () => {
    await provider.onApplicationShutdown();
    await tenant.stop();
  });

  const createUser = (email: string): Promise<string> => provider.createUser({ email, name: 'Ada', roleIds: [] }, options);
  const createRole = (name: string, permissions = ['a:b']): Promise<string> => provider.createRole({ name, permissions }, options);
  const permissionsOf = async (roleId: string): Promise<string[]> =>
    tenant.permissionsOf(await provider.createUser({ email: `${roleId}@example.com`, name: 'Ada', roleIds: [roleId] }, options));

  async function listUsers(): Promise<User[]> {
    const users: User[] = [];
    for await (const page of provider.listUsers(options)) users.push(...page);
    return users;
  }

  /** Calls the tenant's Management API directly, as an administrator. */
  async function administer(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const headers = { authorization: `Bearer ${await tenant.issueManagementToken()}`, 'content-type': 'application/json' };
    const response = await fetch(`${tenant.domain}/api/v2${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return response.status === 204 ? {} : ((await response.json()) as Record<string, unknown>);
  }

  describe('lists each user once', () => {
    const A_DAY = 86_400_000;
    const MOMENT = Date.UTC(2024, 5, 1);

    it.each<[string, number, (index: number) => number, Partial<Auth0Settings>, { searches: number; exports: number }]>([
      ['3,500', 3_500, (index) => MOMENT + index * 777, {}, { searches: 36, exports: 0 }],
      ['20,000', 20_000, (index) => MOMENT + index * 777, {}, { searches: 203, exports: 0 }],
      ['1,200, of which 999 were created at the same moment', 1_200, (index) => MOMENT + Math.max(0, index - 998), {}, { searches: 14, exports: 0 }],
      ['3,500, of which 1,500 were created at the same moment', 3_500, (index) => MOMENT + Math.min(index, 1_000) + Math.max(0, index - 2_500), {}, { searches: 21, exports: 1 }],
      ['2,500, when the search has a granularity of seconds', 2_500, (index) => MOMENT + index, { searchGranularity: 'second' }, { searches: 21, exports: 1 }],
      ['2,500, when the search has a granularity of seconds and each has few users', 2_500, (index) => MOMENT + index * 40, { searchGranularity: 'second' }, { searches: 26, exports: 0 }],
      ['3,000, when the search has a granularity of days and each has many users', 3_000, (index) => MOMENT + Math.floor(index / 1_500) * A_DAY + index, { searchGranularity: 'day' }, { searches: 21, exports: 1 }],
    ])('of %s', async (_, count, createdAt, settings, calls) => {
      Object.assign(tenant.settings, settings);
      const ids = tenant.loadUsers(count, { createdAt });
      const listed = (await inVirtualTime(listUsers)).map(({ userId }) => userId);
      expect(listed).toHaveLength(count);
      expect(new Set(listed)).toEqual(new Set(ids));
      expect({ searches: tenant.count('GET /api/v2/users'), exports: tenant.count('POST /api/v2/jobs/users-exports') }).toEqual(calls);
    });

    it('while users before and after the page are deleted', async () => {
      const ids = tenant.loadUsers(1_000, { createdAt: (index) => MOMENT + Math.floor(index / 250) });
      const leaving = ids.filter((_, index) => index % 100 === 7);
      const listed: string[] = [];
      for await (const page of provider.listUsers(options)) {
        listed.push(...page.map(({ userId }) => userId));
        for (const id of leaving.splice(0, 2)) await administer('DELETE', `/users/${encodeURIComponent(id)}`);
      }
      expect(new Set(listed).size).toBe(listed.length);
      expect(listed).toEqual(expect.arrayContaining(ids.filter((_, index) => index % 100 !== 7)));
    });
  });

  it('ends an export that is no longer read, and stays usable', async () => {
    tenant.loadUsers(5_000, { createdAt: () => 0 });
    let listed = 0;
    await inVirtualTime(async () => {
      for await (const { length } of provider.listUsers(options)) if ((listed += length) > 1_000) break;
    });
    expect(listed).toBeLessThan(2_000);
    await expect(createUser('ada@example.com')).resolves.toBeTypeOf('string');
  });

  it('reports that an export has failed, or that its file cannot be read', async () => {
    tenant.loadUsers(1_001, { createdAt: () => 0 });
    tenant.settings.exportReads = 0;
    tenant.settings.exportEnd = 'failed';
    await expect(inVirtualTime(listUsers)).rejects.toThrow(ProviderError);
    tenant.settings.exportEnd = 'completed';
    tenant.fail(/GET \/exports\//, { kind: 'cut-body' });
    await expect(inVirtualTime(listUsers)).rejects.toThrow(ProviderUnavailable);
    tenant.fail(/GET \/exports\//, { kind: 'answer', status: 403, body: '<Error/>' });
    await expect(inVirtualTime(listUsers)).rejects.toThrow(ProviderError);
    tenant.fail(/GET \/exports\//, { kind: 'answer', status: 200, body: 'no json' });
    await expect(inVirtualTime(listUsers)).rejects.toThrow(ProviderError);
    expect(await inVirtualTime(listUsers)).toHaveLength(1_001);
  });

  it('lists the users of an export whose job cannot be read once, and gives up when it fails twice', async () => {
    tenant.loadUsers(1_001, { createdAt: () => 0 });
    tenant.settings.exportReads = 0;
    const look = 'GET /api/v2/jobs/{id}';
    tenant.fail(look, { kind: 'answer', status: 503, body: '' });
    expect(await inVirtualTime(listUsers)).toHaveLength(1_001);
    tenant.fail(look, { kind: 'answer', status: 503, body: '' }, { times: 2 });
    await expect(inVirtualTime(listUsers)).rejects.toThrow(ProviderUnavailable);
  });

  describe('while the search lags', () => {
    beforeEach(() => {
      tenant.settings.searchDelayMs = Infinity;
    });

    it('lists its own new and changed users correctly, and reads only those that the search does not show correctly', async () => {
      const [ada, bob, eve] = [await createUser('ada@example.com'), await createUser('bob@example.com'), await createUser('eve@example.com')];
      tenant.indexUsers();
      await provider.updateUser(bob, { name: 'Robert' }, options);
      const late = await createUser('late@example.com');
      const before = tenant.count('GET /api/v2/users/{id}');
      expect((await listUsers()).map(({ userId, name }) => [userId, name])).toEqual([[ada, 'Ada'], [eve, 'Ada'], [bob, 'Robert'], [late, 'Ada']]);
      expect(tenant.count('GET /api/v2/users/{id}') - before).toBe(2);
      tenant.indexUsers();
      expect(await listUsers()).toHaveLength(4);
      expect(tenant.count('GET /api/v2/users/{id}') - before).toBe(2);
    });

    it('does not list a user that it created and others have deleted', async () => {
      await administer('DELETE', `/users/${encodeURIComponent(await createUser('ada@example.com'))}`);
      expect(await listUsers()).toEqual([]);
    });

    it('does not list a user that it could not create', async () => {
      const role = await createRole('gone');
      await administer('DELETE', `/roles/${role}`);
      const creation = provider.createUser({ email: 'ada@example.com', name: 'Ada', roleIds: [role] }, options);
      await expect(creation).rejects.toThrow();
      tenant.settings.searchDelayMs = 0;
      expect(await listUsers()).toEqual([]);
    });
  });

  it.each([
    { statusCode: 404, message: 'Not found.', errorCode: 'inexistent_user' },
    { statusCode: 404, message: 'The user does not exist.' },
  ])('reports an unknown user when Auth0 answers an assignment with $message', async (body) => {
    const [role, ada] = [await createRole('role'), await createUser('ada@example.com')];
    tenant.fail('POST /api/v2/users/{id}/roles', { kind: 'answer', status: 404, body });
    await expect(provider.assignRole(ada, role, options)).rejects.toThrow(UserNotFound);
  });

  it('neither assigns nor lists the role of an organization', async () => {
    const role = { id: 'rol_0123456789abcdef', name: 'theirs', type: 'organization' };
    tenant.fail('GET /api/v2/roles', { kind: 'answer', status: 200, body: { start: 0, limit: 50, total: 1, roles: [role] } });
    tenant.fail('GET /api/v2/roles/{id}', { kind: 'answer', status: 200, body: role });
    const listed: unknown[] = [];
    for await (const page of provider.listRoles(options)) listed.push(...page);
    expect(listed).toEqual([]);
    await expect(provider.assignRole(await createUser('ada@example.com'), role.id, options)).rejects.toThrow('role_id');
  });

  it.each<Auth0Settings['unknownRole']>(['not-found', 'bad-request', 'ignored'])(
    'assigns no role that others deleted a moment ago, whatever Auth0 answers: %s',
    async (unknownRole) => {
      tenant.settings.unknownRole = unknownRole;
      const [role, ada] = [await createRole('role'), await createUser('ada@example.com')];
      await provider.listRoles(options).next();
      await administer('DELETE', `/roles/${role}`);
      await expect(provider.assignRole(ada, role, options)).rejects.toThrow(RoleNotFound);
      await expect(provider.createUser({ email: 'bob@example.com', name: 'Bob', roleIds: [role] }, options)).rejects.toThrow(RoleNotFound);
      expect(tenant.permissionsOf(ada)).toEqual([]);
      const listed: string[] = [];
      for await (const users of provider.listUsers(options)) listed.push(...users.map(({ email }) => email));
      expect(listed).toEqual(['ada@example.com']);
    },
  );

  describe('creating a user with roles', () => {
    const newRoles = async (count: number): Promise<string[]> => {
      const made = await Promise.all(Array.from({ length: count }, (_, index) => administer('POST', '/roles', { name: `role ${index}` })));
      return made.map(({ id }) => String(id));
    };
    const create = (roleIds: readonly string[]): Promise<string> => provider.createUser({ email: 'ada@example.com', name: 'Ada', roleIds }, options);
    const NOBODY = 'rol_0123456789abcdef';

    it.each([
      { count: 5, others: 0, pages: 0, lookUps: 5 },
      { count: 6, others: 0, pages: 1, lookUps: 0 },
      { count: 50, others: 60, pages: 3, lookUps: 0 },
    ])('looks up $count roles one by one or in the list, whichever takes fewer calls', async ({ count, others, pages, lookUps }) => {
      tenant.settings.largestPage = 50;
      const roles = (await newRoles(others + count)).slice(others);
      const before = { pages: tenant.count('GET /api/v2/roles'), lookUps: tenant.count('GET /api/v2/roles/{id}') };
      const userId = await create(roles);
      expect({ pages: tenant.count('GET /api/v2/roles') - before.pages, lookUps: tenant.count('GET /api/v2/roles/{id}') - before.lookUps }).toEqual({ pages, lookUps });
      const given = await administer('GET', `/users/${encodeURIComponent(userId)}/roles?per_page=50`);
      expect((given as unknown as { id: string }[]).map(({ id }) => id).sort()).toEqual(roles.toSorted());
    });

    it.each([
      ['one role does not exist', (roles: string[]) => [NOBODY, ...roles.slice(0, 6)]],
      ['no role exists', () => Array.from({ length: 7 }, (_, index) => NOBODY.slice(0, -1) + String(index))],
      ['one role belongs to an organization', (roles: string[]) => [tenant.addOrganizationRole('theirs'), ...roles.slice(0, 6)]],
    ])('creates no user when %s, and reads the list of roles only to its last page', async (_, roleIds) => {
      await expect(create(roleIds(await newRoles(6)))).rejects.toThrow(RoleNotFound);
      expect({ users: tenant.count('POST /api/v2/users'), pages: tenant.count('GET /api/v2/roles') }).toEqual({ users: 0, pages: 1 });
    });
  });

  it('keeps the scopes of others, with their descriptions', async () => {
    const scopes = [{ value: 'their:scope', description: 'Theirs' }, { value: 'other:scope' }];
    await administer('PATCH', '/resource-servers/load-data-api', { scopes });
    await createRole('role', ['a:b', 'other:scope']);
    expect((await administer('GET', '/resource-servers/load-data-api')).scopes).toEqual([...scopes, { value: 'a:b' }]);
  });

  it.each([1, 3])('writes its scopes again when others overwrite them %i times without having read them', async (times) => {
    let overwritten = 0;
    onExchange = async ({ method, path, requestBody }) => {
      const { scopes = [] } = (requestBody ?? {}) as { scopes?: { value: string }[] };
      if (method !== 'PATCH' || !path.includes('resource-servers') || !scopes.some(({ value }) => value === 'a:b') || overwritten === times) return;
      overwritten++;
      await administer('PATCH', '/resource-servers/load-data-api', { scopes: [{ value: `theirs:${overwritten}` }] });
    };
    const role = await createRole('role', ['a:b', 'c:d']);
    expect(overwritten).toBe(times);
    expect((await permissionsOf(role)).sort()).toEqual(['a:b', 'c:d']);
    expect((await administer('GET', '/resource-servers/load-data-api')).scopes).toContainEqual({ value: `theirs:${times}` });
  });

  it('adds its scopes again when others overwrite them before the role has them', async () => {
    onExchange = async ({ method, path, answer }) => {
      if (method !== 'POST' || !path.endsWith('/roles') || answer?.status !== 200) return;
      await administer('PATCH', '/resource-servers/load-data-api', { scopes: [{ value: 'theirs:1' }] });
    };
    expect((await permissionsOf(await createRole('role', ['a:b', 'c:d']))).sort()).toEqual(['a:b', 'c:d']);
    expect((await administer('GET', '/resource-servers/load-data-api')).scopes).toContainEqual({ value: 'theirs:1' });
  });

  const READING = 'GET /api/v2/resource-servers/{id}';
  const WRITING = 'PATCH /api/v2/resource-servers/{id}';
  const isAsked = (request: string, times: number) => expect.poll(() => tenant.count(request), { interval: 5 }).toBe(times);

  it('does not base a write on scopes that it read during another write of its own', async () => {
    tenant.fail(WRITING, { kind: 'delay', ms: 300 });
    const one = createRole('one', ['one:new']);
    await isAsked(WRITING, 1);
    const other = createRole('other', ['other:new']);
    const roles = await Promise.all([one, other]);
    expect(await Promise.all(roles.map(permissionsOf))).toEqual([['one:new'], ['other:new']]);
  });

  it('does not base a write on scopes that it read long ago and others may have changed', async () => {
    tenant.fail(WRITING, { kind: 'delay', ms: 200 });
    // The creations of two other roles delay the write of the scopes for the role `late`. The first writes the scopes.
    // The second waits for that write, reads the scopes again and finds nothing to write.
    tenant.fail(READING, { kind: 'delay', ms: 500 }, { skip: 3 });
    const before = [createRole('first', ['a:b'])];
    await isAsked(READING, 1);
    await isAsked(WRITING, 1);
    before.push(createRole('second', ['a:b']));
    await isAsked(READING, 4);
    const late = createRole('late', ['late:new']);
    await isAsked(READING, 5);
    await administer('PATCH', '/resource-servers/load-data-api', { scopes: [{ value: 'a:b' }, { value: 'theirs:1' }] });
    await Promise.all([...before, late]);
    expect((await administer('GET', '/resource-servers/load-data-api')).scopes).toEqual(['a:b', 'theirs:1', 'late:new'].map((value) => ({ value })));
  });

  it('leaves its scopes but no role when the role cannot be created', async () => {
    await createRole('taken');
    await expect(createRole('taken', ['new:one'])).rejects.toThrow('role name');
    expect((await administer('GET', '/resource-servers/load-data-api')).scopes).toContainEqual({ value: 'new:one' });
    expect(await administer('GET', '/roles')).toHaveLength(1);
  });

  it('rejects permissions that exceed the scopes an API can have', async () => {
    await administer('PATCH', '/resource-servers/load-data-api', { scopes: Array.from({ length: 1_000 }, (_, index) => ({ value: `s:${index}` })) });
    await expect(createRole('role', ['one:more'])).rejects.toThrow('permissions');
    await expect(createRole('role', ['s:1'])).resolves.toMatch(/^rol_/);
  });

  it('gets a new token at once when its token has fewer scopes than its grant', async () => {
    tenant.grantService(SERVICE_SCOPES.filter((scope) => scope !== 'update:users'));
    const userId = await createUser('ada@example.com');
    tenant.grantService(SERVICE_SCOPES);
    await provider.updateUser(userId, { name: 'Grace' }, options);
    expect(tenant.count('POST /oauth/token')).toBe(2);
  });

  it('names the missing scope, and does not request a new token each time', async () => {
    tenant.grantService(SERVICE_SCOPES.filter((scope) => scope !== 'update:users'));
    const userId = await createUser('ada@example.com');
    for (let time = 0; time < 3; time++) {
      const update = provider.updateUser(userId, { name: 'Grace' }, options);
      await expect(update).rejects.toThrow(ProviderError);
      await expect(update).rejects.toThrow('update:users');
    }
    expect(tenant.count('POST /oauth/token')).toBe(2);
  });

  it("reports a missing connection as a mistake of the configuration, not of the request", async () => {
    const other = new Auth0IdentityProvider({ url: tenant.domain, ...tenant.service, connection: 'other', audience: 'load-data-api' });
    await expect(other.createUser({ email: 'ada@example.com', name: 'Ada', roleIds: [] }, options)).rejects.toThrow(ProviderError);
    await other.onApplicationShutdown();
  });

  describe('the health check', () => {
    const READING = 'GET /api/v2/resource-servers/{id}';
    const TOKEN = 'POST /oauth/token';
    beforeEach(async () => {
      await administer('PATCH', '/resource-servers/load-data-api', { scopes: PERMISSIONS.map((value) => ({ value })) });
      vi.useFakeTimers({ toFake: ['performance'] });
      return () => vi.useRealTimers();
    });

    it('checks a tenant that is healthy or has only warnings every ten seconds, and one with a problem every second', async () => {
      const looks = async (passedMs: number): Promise<number> => {
        vi.advanceTimersByTime(passedMs);
        const before = tenant.count(READING);
        await provider.checkHealth(options).catch((error: unknown) => { expect(error).toBeInstanceOf(ProviderMisconfigured); });
        return tenant.count(READING) - before;
      };
      expect([await looks(0), await looks(9_000), await looks(1_000)]).toEqual([1, 0, 1]);
      await administer('PATCH', '/resource-servers/load-data-api', { scopes: [] });
      expect([await looks(10_000), await looks(9_000), await looks(1_000)]).toEqual([1, 0, 1]);
      expect(provider.warnings).toHaveLength(PERMISSIONS.length);
      await administer('PATCH', '/resource-servers/load-data-api', { enforce_policies: false });
      expect([await looks(10_000), await looks(1_000), await looks(1_000)]).toEqual([1, 1, 1]);
    });

    it('requests one new token a minute while a scope is missing, and is healthy once the scope is granted', async () => {
      tenant.grantService(SERVICE_SCOPES.filter((scope) => scope !== 'update:users'));
      for (const [passedMs, tokens] of [[0, 1], [1_000, 2], [1_000, 2], [50_000, 2], [10_000, 3]] as const) {
        vi.advanceTimersByTime(passedMs);
        await expect(provider.checkHealth(options)).rejects.toThrow('update:users');
        expect(tenant.count(TOKEN)).toBe(tokens);
      }
      tenant.grantService(SERVICE_SCOPES);
      vi.advanceTimersByTime(60_000);
      await expect(provider.checkHealth(options)).resolves.toBeUndefined();
    });

    it('keeps its token while something else is wrong, and is healthy a second after that was fixed', async () => {
      await administer('PATCH', '/resource-servers/load-data-api', { enforce_policies: false });
      for (let look = 0; look < 3; look++) {
        await expect(provider.checkHealth(options)).rejects.toThrow('enforce_policies');
        vi.advanceTimersByTime(1_000);
      }
      await administer('PATCH', '/resource-servers/load-data-api', { enforce_policies: true });
      await expect(provider.checkHealth(options)).resolves.toBeUndefined();
      expect(tenant.count(TOKEN)).toBe(1);
    });
  });

  describe('with a rate limit', () => {
    /** Returns the options of a call whose caller gives up after ten seconds of virtual time. */
    const tenSeconds = (): { signal: AbortSignal } => {
      const caller = new AbortController();
      setTimeout(() => { caller.abort(); }, 10_000);
      return { signal: caller.signal };
    };
    const simultaneously = <T>(count: number, work: (index: number) => Promise<T>): Promise<PromiseSettledResult<T>[]> =>
      Promise.allSettled(Array.from({ length: count }, (_, index) => work(index)));
    const valuesOf = <T>(outcomes: PromiseSettledResult<T>[]): T[] =>
      outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));

    it('creates all of 50 simultaneous users, each once and with their roles', async () => {
      const role = await createRole('role');
      const outcomes = await inVirtualTime(() => {
        tenant.settings.rateLimit = { burst: 15, perSecond: 15 };
        return simultaneously(50, (index) => provider.createUser({ email: `${index}@example.com`, name: 'Ada', roleIds: [role] }, tenSeconds()));
      });
      tenant.settings.rateLimit = undefined;
      const created = valuesOf(outcomes);
      expect(created).toHaveLength(50);
      expect((await listUsers()).map(({ userId }) => userId).sort()).toEqual(created.sort());
      for (const userId of created) expect(tenant.permissionsOf(userId)).toEqual(['a:b']);
    });

    describe('with 20 simultaneous assignments of one role', () => {
      const READ_ROLE = 'GET /api/v2/roles/{id}';
      const assignments = async (): Promise<{ users: string[]; outcomes: PromiseSettledResult<void>[] }> => {
        const role = await createRole('role');
        const users = await Promise.all(Array.from({ length: 20 }, (_, index) => createUser(`${index}@example.com`)));
        const outcomes = await inVirtualTime(async () => {
          tenant.settings.rateLimit = { burst: 4, perSecond: 10 };
          await provider.listRoles(options).next();
          return simultaneously(20, (index) => provider.assignRole(users[index] ?? '', role, tenSeconds()));
        });
        return { users, outcomes };
      };
      const having = (users: string[]): string[] => users.filter((userId) => tenant.permissionsOf(userId).includes('a:b'));

      it('reads the role once', async () => {
        const { users } = await assignments();
        expect(having(users)).toEqual(users);
        expect(tenant.count(READ_ROLE)).toBe(1);
      });

      it('fails only the assignment whose call fails', async () => {
        tenant.fail(READ_ROLE, { kind: 'answer', status: 500, body: {} });
        const { users, outcomes } = await assignments();
        expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1);
        expect(having(users)).toHaveLength(19);
      });
    });

    it('creates as many of 40 simultaneous roles as it can, leaves nothing of the rest, and reports when to retry', async () => {
      const roles = async (): Promise<string[]> => ((await administer('GET', '/roles')) as unknown as { id: string }[]).map(({ id }) => id);
      const outcomes = await inVirtualTime(async () => {
        tenant.settings.rateLimit = { burst: 2, perSecond: 2 };
        const settled = await simultaneously(40, (index) => provider.createRole({ name: `role ${index}`, permissions: ['a:b'] }, tenSeconds()));
        tenant.settings.rateLimit = undefined;
        // Waits until roles whose creation failed have been removed, which happens in the background.
        const { length } = valuesOf(settled);
        for (let looks = 0; looks < 100 && (await roles()).length > length; looks++) await new Promise((resolve) => setTimeout(resolve, 1_000));
        return settled;
      });
      const created = valuesOf(outcomes);
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ name: 'ProviderUnavailable', retryAfterSeconds: expect.any(Number) as number });
      }
      expect((await roles()).sort()).toEqual(created.sort());
      expect(created.length).toBeGreaterThan(0);
      for (const id of created) expect(await permissionsOf(id)).toEqual(['a:b']);
    });
  });
});
