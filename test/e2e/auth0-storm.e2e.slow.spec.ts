import { beforeAll, describe, expect, it } from 'vitest';
import { auth0Variables, operatorToken, startTenant } from '../support/auth0-tenant.js';
import { callManagementApi } from '../support/checked-auth0.js';
import { type Answer, BASE, type Fields, identityRequests, OPERATIONS } from '../support/identity-requests.js';
import { readiness } from '../support/readiness.js';
import { startService } from '../support/service.js';
import { inVirtualTime } from '../support/virtual-time.js';

/** How long the storm waits for an expected event, in milliseconds. */
const PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 200;
const COMMANDS_PER_SECOND = 15;
/**
 * The number of users in the tenant. Their list takes five pages. The first pages are read before many commands wait
 * for the tenant.
 */
const USERS = 450;
const HEALTH_EVERY_MS = 2_000;

/** Waits for a condition. Returns even if it doesn't hold in time, so that the tests say what is wrong. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; waitedMs < PATIENCE_MS && !(await condition()); waitedMs += LOOK_EVERY_MS) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

const ids = (items: readonly Fields[]): string[] => items.map(({ user_id, role_id }) => String(user_id ?? role_id)).sort();

/** Lets the service and the tenant run through the storm, and closes them. */
async function storm() {
  const tenant = (await startTenant()).standIn;
  const service = await startService(auth0Variables(tenant));
  const { known, makeKnown, send, post, list, GOOD } = identityRequests({ url: service.url, token: await operatorToken(tenant) });
  await makeKnown();
  /** Ids of the users that existed before the commands began. */
  const before = [known.userId, ...tenant.loadUsers(USERS)];
  /** Ids of all users and roles that the commands created. */
  const made = { users: [] as string[], roles: [] as string[] };
  const commands: Promise<Answer>[] = [];
  const health: Promise<number>[] = [];
  tenant.settings.rateLimit = { burst: 2, perSecond: 2 };

  const isAsked = (request: string) => () => tenant.count(request) > 0;
  // No time limit on the client's side, because the list takes longer than a caller waits for a command. Undefined if
  // the list breaks off.
  const listing = send('GET', `${BASE}/users`, { signal: null }).catch(() => undefined);
  await until(isAsked('GET /api/v2/users'));
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
  // The tenant loses the answers to three creations of users and of roles, and not just one each, because a lost answer
  // may be a 429, which created nothing.
  tenant.fail('POST /api/v2/users', { kind: 'lost-answer' }, { skip: 1, times: 3 });
  tenant.fail('POST /api/v2/roles', { kind: 'lost-answer' }, { skip: 1, times: 3 });
  await until(isAsked('DELETE /api/v2/users/{id}'));
  await until(isAsked('DELETE /api/v2/roles/{id}'));
  const whole = await listing;
  await until(() => refused > 0);
  clearInterval(arrivals);
  clearInterval(looks);
  const removals = ['DELETE /api/v2/users/{id}', 'DELETE /api/v2/roles/{id}'].map((request) => tenant.count(request));
  const answers = await Promise.all(commands);
  const ready = await Promise.all(health);

  tenant.settings.rateLimit = undefined;
  const expected = { users: [...before, ...made.users].sort(), roles: [known.roleId, ...made.roles].sort() };
  const left = async () => ({ users: ids(await list('users')), roles: ids(await list('roles')) });
  // What failed creations left behind is removed in the background.
  await until(async () => JSON.stringify(await left()) === JSON.stringify(expected));
  const found = await left();
  const permissions = {
    users: made.users.map((userId) => tenant.permissionsOf(userId)),
    roles: await Promise.all(made.roles.map(async (roleId) => (await callManagementApi(tenant, `GET /roles/${roleId}/permissions`)).body)),
  };
  await service.close();
  await tenant.stop();
  return { before, answers, refused, removals, ready, whole, expected, found, permissions };
}

describe('the service on an Auth0 tenant with two calls a second, at 15 commands a second,', () => {
  let seen: Awaited<ReturnType<typeof storm>>;
  beforeAll(async () => {
    seen = await inVirtualTime(storm);
  }, 120_000);

  it('answers each command with success, or with 503 and when to retry', () => {
    const failed = seen.answers.filter(({ status }) => status !== 200 && status !== 201);
    expect(seen.refused).toBeGreaterThan(0);
    expect(failed.length).toBeLessThan(seen.answers.length);
    for (const { status, headers } of failed) {
      expect(status).toBe(503);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60);
    }
  });

  it('stays ready', () => {
    expect(new Set(seen.ready)).toEqual(new Set([200]));
  });

  it('completes a list of several pages', () => {
    expect(seen.whole?.status).toBe(200);
    const listed = ids((JSON.parse(seen.whole?.body ?? '') as { users: Fields[] }).users);
    expect(listed).toEqual(expect.arrayContaining(seen.before));
    expect(new Set(listed).size).toBe(listed.length);
  });

  it('creates everything that it acknowledges, completely and once, and leaves nothing else', () => {
    expect(seen.found).toEqual(seen.expected);
    for (const count of seen.removals) expect(count).toBeGreaterThan(0);
    for (const permissions of seen.permissions.users) expect(permissions).toEqual(['read:roles']);
    for (const permissions of seen.permissions.roles) expect(permissions).toMatchObject([{ permission_name: 'upload:historical' }]);
  });
});
