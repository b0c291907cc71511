import { randomBytes, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { z } from 'zod';
import { loadAuth0CheckEnvironment } from '../../src/configuration/commands.js';
import { managementApi } from '../../src/identity-management/adapters/out/auth0/management-api.js';
import { Auth0IdentityProvider } from '../../src/identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js';
import { randomPassword } from '../../src/identity-management/adapters/out/auth0/random-password.js';
import type { ProviderAnswer } from '../../src/identity-management/adapters/out/provider-api/api-client.js';
import { CallPace } from '../../src/identity-management/adapters/out/provider-api/call-pace.js';
import { Operation } from '../../src/identity-management/adapters/out/provider-api/operation.js';
import { identityProviderContract } from '../../src/testing/identity-provider.contract.js';
import { Calls } from './calls.js';
import { type Kind, Made } from './made.js';
import { RecordedProvider } from './recorded-provider.js';
import { REPORT } from './report-file.js';
import { SavedScopes } from './saved-scopes.js';

// All clients of Auth0's API in this spec share one `CallPace`, because the tenant has one rate limit for all of them.
const tenant = { ...loadAuth0CheckEnvironment(), pace: new CallPace() };
const SEARCH_LIMIT_MS = 120_000;
const UNKNOWN_USER = 'auth0|0123456789abcdef01234567';
const UNKNOWN_ROLE = 'rol_0123456789abcdef';

const calls = new Calls(tenant.url);
const made = new Made('data/auth0-check/made.txt');
const api = managementApi(tenant);
const apiPath = `/resource-servers/${encodeURIComponent(tenant.audience)}`;
const facts = new Map<string, string>();
const outcomes = new Map<string, string[]>();
const searchDelaysMs: number[] = [];
const begin = performance.now();
const savedScopes = new SavedScopes('data/auth0-check/scopes.json', `${tenant.url}/api/v2${apiPath}`);
/** Every user, role and setting that couldn't be removed or restored, with the reasons. */
const left: string[] = [];

const call = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<ProviderAnswer> =>
  api.call({ method, path, body, repeatable: false, operation: new Operation() });
const refusal = z.object({ message: z.string().default(''), errorCode: z.string().default('') }).catch({ message: '', errorCode: '' });
const answerText = ({ status, body }: ProviderAnswer): string => {
  const { message, errorCode } = refusal.parse(body);
  return [`${status}`, errorCode, message].filter(Boolean).join(' ');
};
const open = () => new Auth0IdentityProvider(tenant);

async function found(userId: string): Promise<{ created_at: string; updated_at: string }> {
  const user = z.object({ created_at: z.string(), updated_at: z.string() });
  return user.parse((await call('GET', `/users/${encodeURIComponent(userId)}`)).body);
}

async function search(query: string): Promise<{ user_id: string; updated_at: string }[]> {
  const answer = await call('GET', `/users?search_engine=v3&q=${encodeURIComponent(query)}`);
  return z.array(z.object({ user_id: z.string(), updated_at: z.string() })).parse(answer.body);
}

/** Waits until Auth0's search shows the user that was created or changed last, in its current version. */
async function searchIsUpToDate(): Promise<void> {
  const userId = made.latestUserId;
  made.latestUserId = undefined;
  if (userId === undefined) return;
  const { updated_at: updatedAt } = await found(userId);
  const start = performance.now();
  while ((await search(`user_id:"${userId}"`))[0]?.updated_at !== updatedAt) {
    if (performance.now() - start > SEARCH_LIMIT_MS) throw new Error(`The search does not show ${userId} after ${SEARCH_LIMIT_MS} ms`);
    await delay(250);
  }
  searchDelaysMs.push(Math.round(performance.now() - start));
}

async function newUser(): Promise<string> {
  const id = randomBytes(12).toString('hex');
  const body = { user_id: id, email: `${id}@example.com`, connection: tenant.connection, password: randomPassword(), email_verified: false, verify_email: false };
  const answer = await call('POST', '/users', body);
  return made.note('users', z.object({ user_id: z.string() }).parse(answer.body).user_id);
}

async function newRole(): Promise<string> {
  const answer = await call('POST', '/roles', { name: `check ${randomUUID()}`, description: 'Created by auth0:check' });
  return made.note('roles', z.object({ id: z.string() }).parse(answer.body).id);
}

/**
 * Removes or restores something in the tenant. Resolves to the reason if that fails. Resolves to undefined on success,
 * or if what is to be removed doesn't exist.
 */
async function undone(method: 'DELETE' | 'PATCH', path: string, body?: unknown): Promise<string | undefined> {
  try {
    const answer = await call(method, path, body);
    return answer.status < 300 || (method === 'DELETE' && answer.status === 404) ? undefined : answerText(answer);
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Removes all users and roles from the tenant that this run or an earlier one created, and restores the scopes of the
 * API. Notes failures in `left`. The next run tries again.
 */
async function cleanUp(): Promise<void> {
  left.length = 0;
  const kept: [Kind, string][] = [];
  for (const kind of ['users', 'roles'] as const) {
    for (const id of made[kind]) {
      const reason = await undone('DELETE', `/${kind}/${encodeURIComponent(id)}`);
      if (reason === undefined) continue;
      kept.push([kind, id]);
      left.push(`${kind} ${id}: ${reason}`);
    }
  }
  made.keepOnly(kept);
  const scopes = savedScopes.read();
  const reason = scopes === undefined ? undefined : await undone('PATCH', apiPath, { scopes });
  if (reason === undefined) savedScopes.forget();
  else left.push(`the API's permissions are not what they were: ${reason}`);
}

function report(): string {
  const section = (title: string, lines: readonly string[]): string => `## ${title}\n\n${lines.map((line) => `- ${line}\n`).join('')}`;
  const slowest = Math.max(0, ...searchDelaysMs);
  const counted = [...calls.counts].sort().map(([status, count]) => `${count} with ${status}`);
  return [
    `# auth0:check, ${tenant.url}, ${new Date().toISOString()}\n`,
    section('Tests', [`${outcomes.get('pass')?.length ?? 0} passed`, ...(outcomes.get('fail') ?? []).map((name) => `failed: ${name}`)]),
    section('What Auth0 does', [
      ...[...facts].map(([what, fact]) => `${what}: ${fact}`),
      `the search shows a change after: at most ${slowest} ms (${searchDelaysMs.length} looks)`,
      ...[...calls.limits].sort().map(([header, value]) => `${header}: ${value}`),
    ]),
    ...(left.length > 0 ? [section('Left behind', left)] : []),
    section('Calls', [`${calls.total} in ${Math.round((performance.now() - begin) / 1000)} s`, ...counted]),
  ].join('\n');
}

beforeAll(async () => {
  await cleanUp();
  if (left.length > 0) throw new Error(`An earlier run has left what can't be removed: ${left.join('; ')}`);
  savedScopes.save(z.object({ scopes: z.array(z.looseObject({ value: z.string() })).default([]) }).parse((await call('GET', apiPath)).body).scopes);
});

afterEach(({ task }) => {
  const state = task.result?.state === 'fail' ? 'fail' : 'pass';
  outcomes.set(state, [...(outcomes.get(state) ?? []), task.name]);
});

afterAll(async () => {
  try {
    await cleanUp();
  } finally {
    writeFileSync(REPORT, report());
    await api.close();
  }
  if (left.length > 0) throw new Error(`This is left behind: ${left.join('; ')}`);
});

identityProviderContract('A tenant of Auth0', async () => {
  await searchIsUpToDate();
  let inner = open();
  return {
    provider: new RecordedProvider(inner, made),
    unknownUserId: UNKNOWN_USER,
    unknownRoleId: UNKNOWN_ROLE,
    moreThanOnePage: 101,
    // No more simultaneous calls than a tenant that allows two calls a second can answer in time.
    simultaneousCalls: 4,
    reopen: async () => {
      await inner.onApplicationShutdown();
      await searchIsUpToDate();
      return new RecordedProvider((inner = open()), made);
    },
    permissionsOf: async (userId) => {
      const names: string[] = [];
      for (let page = 0; ; page++) {
        const { body } = await call('GET', `/users/${encodeURIComponent(userId)}/permissions?per_page=50&page=${page}`);
        const permissions = z.array(z.object({ permission_name: z.string() })).parse(body);
        if (permissions.length === 0) return names;
        names.push(...permissions.map(({ permission_name: name }) => name));
      }
    },
    tearDown: () => inner.onApplicationShutdown(),
  };
});

describe('Undocumented behaviour of Auth0:', () => {
  /** Defines a test that finds out a fact about Auth0, which the report shows. */
  const find = (what: string, work: () => Promise<string>): void => {
    it(what, async () => {
      facts.set(what, await work());
    });
  };
  const rolesOf = (userId: string): string => `/users/${encodeURIComponent(userId)}/roles`;
  const limitOf = async (path: string): Promise<string> => {
    const answer = await call('GET', `${path}?page=0&per_page=100&include_totals=true`);
    return `${z.object({ limit: z.number() }).parse(answer.body).limit} of 100`;
  };

  find('an unknown role is given', async () => answerText(await call('POST', rolesOf(await newUser()), { roles: [UNKNOWN_ROLE] })));
  find('an unknown role is given beside one that is there', async () => {
    const [userId, roleId] = [await newUser(), await newRole()];
    const answer = await call('POST', rolesOf(userId), { roles: [roleId, UNKNOWN_ROLE] });
    const held = z.array(z.unknown()).parse((await call('GET', rolesOf(userId))).body);
    return `${answerText(answer)}, and the user has ${held.length} roles`;
  });
  find('a role is given again', async () => {
    const [userId, body] = [await newUser(), { roles: [await newRole()] }];
    await call('POST', rolesOf(userId), body);
    return answerText(await call('POST', rolesOf(userId), body));
  });
  find('a permission that the API does not have is given to a role', async () => {
    const permissions = [{ resource_server_identifier: tenant.audience, permission_name: `never:${randomUUID()}` }];
    return answerText(await call('POST', `/roles/${await newRole()}/permissions`, { permissions }));
  });
  find('a user who is not there is deleted', async () => answerText(await call('DELETE', `/users/${encodeURIComponent(UNKNOWN_USER)}`)));
  find('a page of roles holds', () => limitOf('/roles'));
  find("a page of a user's roles holds", async () => limitOf(rolesOf(await newUser())));
  find('a page of users holds', () => limitOf('/users'));
  find('name_filter finds a role by a part of its name', async () => {
    const roleId = await newRole();
    const { name } = z.object({ name: z.string() }).parse((await call('GET', `/roles/${roleId}`)).body);
    const roles = z.array(z.object({ id: z.string() })).parse((await call('GET', `/roles?name_filter=${encodeURIComponent(name.slice(0, -6))}`)).body);
    return roles.some(({ id }) => id === roleId) ? 'yes' : 'no';
  });
  find("the API's scopes are written, with", async () => `${(await call('PATCH', apiPath, { scopes: z.object({ scopes: z.unknown() }).parse((await call('GET', apiPath)).body).scopes })).status}`);
  find('a search sorts users by created_at, to', async () => {
    for (let count = 0; count < 5; count++) await newUser();
    await searchIsUpToDate();
    const { body } = await call('GET', '/users?search_engine=v3&sort=created_at:1&page=0&per_page=100');
    const times = z.array(z.object({ created_at: z.string() })).parse(body).map(({ created_at: at }) => Date.parse(at));
    const units: [string, number][] = [['a millisecond', 1], ['a second', 1_000], ['a day', 86_400_000]];
    const isSorted = (unit: number): boolean =>
      times.every((time, index) => Math.floor(time / unit) >= Math.floor((times[index - 1] ?? -Infinity) / unit));
    const [unit] = units.find(([, length]) => isSorted(length)) ?? ['nothing'];
    return `${unit} (${times.length} users)${unit === 'a millisecond' ? '' : ': GET /users will fail'}`;
  });
  find('ranges of created_at in a search are as fine as', async () => {
    const userId = await newUser();
    await searchIsUpToDate();
    const at = Date.parse((await found(userId)).created_at);
    const isFoundFrom = async (from: number): Promise<boolean> => {
      const users = await search(`user_id:"${userId}" AND created_at:["${new Date(from).toISOString()}" TO *]`);
      return users.length > 0;
    };
    if (!(await isFoundFrom(at))) return 'nothing: a user is not found from their own time on';
    const steps: [string, number][] = [['a millisecond', at + 1], ['a second', at + 1_000], ['a day', at + 86_400_000]];
    for (const [name, from] of steps) if (!(await isFoundFrom(from))) return name;
    return 'nothing: all are found';
  });
});
