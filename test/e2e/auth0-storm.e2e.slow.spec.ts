import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Auth0StandIn } from '../../src/testing/index.js';
import { auth0Variables, operatorToken, startTenant } from '../support/auth0-tenant.js';
import { callManagementApi } from '../support/checked-auth0.js';
import { type Answer, BASE, type Fields, identityRequests, OPERATIONS } from '../support/identity-requests.js';
import { readiness } from '../support/readiness.js';
import { type RunningService, startService } from '../support/service.js';

const PATIENCE = { timeout: 60_000, interval: 200 };
const COMMANDS_PER_SECOND = 15;
/**
 * The number of users in the tenant. Their list takes five pages. The first pages are read before many commands wait
 * for the tenant.
 */
const USERS = 450;
const HEALTH_EVERY_MS = 2_000;

describe('the service on an Auth0 tenant with two calls a second, at 15 commands a second,', { timeout: 120_000 }, () => {
  let tenant: Auth0StandIn;
  let service: RunningService;
  const target = { url: '', token: '' };
  const { known, makeKnown, send, post, list, GOOD } = identityRequests(target);
  /** Ids of the users that existed before the commands began. */
  const before: string[] = [];
  /** Ids of all users and roles that the commands created. */
  const made = { users: [] as string[], roles: [] as string[] };
  const commands: Promise<Answer>[] = [];
  const health: Promise<number>[] = [];
  /** The answer with the list of users; undefined if the list breaks off. */
  let whole: Answer | undefined;

  const ids = (items: readonly Fields[]): string[] => items.map(({ user_id, role_id }) => String(user_id ?? role_id)).sort();

  const asked = (request: string): Promise<void> => vi.waitFor(() => { expect(tenant.count(request)).toBeGreaterThan(0); }, PATIENCE);

  beforeAll(async () => {
    tenant = (await startTenant()).standIn;
    service = await startService(auth0Variables(tenant));
    Object.assign(target, { url: service.url, token: await operatorToken(tenant) });
    await makeKnown();
    before.push(known.userId, ...tenant.loadUsers(USERS));
    tenant.settings.rateLimit = { burst: 2, perSecond: 2 };

    // No time limit on the client's side, because the list takes longer than a caller waits for a command.
    const listing = send('GET', `${BASE}/users`, { signal: null }).catch(() => undefined);
    await asked('GET /api/v2/users');
    let refused = 0;
    const command = async (): Promise<Answer> => {
      const operation = OPERATIONS[commands.length % OPERATIONS.length] ?? 'create-user';
      const answer = await post(operation, GOOD[operation]());
      if (answer.status === 201) made[operation === 'create-user' ? 'users' : 'roles'].push(String(Object.values(JSON.parse(answer.body) as Fields)[1]));
      if (answer.status === 503) refused++;
      return answer;
    };
    const arrivals = setInterval(() => commands.push(command()), 1_000 / COMMANDS_PER_SECOND);
    const looks = setInterval(() => health.push(readiness(service.url).then(({ status }) => status)), HEALTH_EVERY_MS);
    try {
      // The tenant loses the answers to three creations of users and of roles, and not just one each, because a lost
      // answer may be a 429, which created nothing.
      tenant.fail('POST /api/v2/users', { kind: 'lost-answer' }, { skip: 1, times: 3 });
      tenant.fail('POST /api/v2/roles', { kind: 'lost-answer' }, { skip: 1, times: 3 });
      await asked('DELETE /api/v2/users/{id}');
      await asked('DELETE /api/v2/roles/{id}');
      whole = await listing;
      await vi.waitFor(() => { expect(refused).toBeGreaterThan(0); }, PATIENCE);
    } finally {
      clearInterval(arrivals);
      clearInterval(looks);
      await Promise.allSettled([...commands, ...health, listing]);
    }
    tenant.settings.rateLimit = undefined;
  }, 120_000);
  afterAll(async () => {
    await service.close();
    await tenant.stop();
  });

  it('answers each command with success, or with 503 and when to retry', async () => {
    const answers = await Promise.all(commands);
    const failed = answers.filter(({ status }) => status !== 200 && status !== 201);
    expect(failed.length).toBeLessThan(answers.length);
    for (const { status, headers } of failed) {
      expect(status).toBe(503);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60);
    }
  });

  it('stays ready', async () => {
    expect(new Set(await Promise.all(health))).toEqual(new Set([200]));
  });

  it('completes a list of several pages', () => {
    expect(whole?.status).toBe(200);
    const listed = ids((JSON.parse(whole?.body ?? '') as { users: Fields[] }).users);
    expect(listed).toEqual(expect.arrayContaining(before));
    expect(new Set(listed).size).toBe(listed.length);
  });

  it('creates everything that it acknowledges, completely and once, and leaves nothing else', async () => {
    await expect.poll(async () => ids(await list('users')), PATIENCE).toEqual([...before, ...made.users].sort());
    await expect.poll(async () => ids(await list('roles')), PATIENCE).toEqual([known.roleId, ...made.roles].sort());
    for (const userId of made.users) expect(tenant.permissionsOf(userId)).toEqual(['read:roles']);
    for (const roleId of made.roles) {
      expect((await callManagementApi(tenant, `GET /roles/${roleId}/permissions`)).body).toMatchObject([{ permission_name: 'upload:historical' }]);
    }
  });
});
