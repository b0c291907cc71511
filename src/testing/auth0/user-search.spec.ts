import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Called, callManagementApi, type CheckedAuth0, ownViolations, startCheckedAuth0 } from '../../../test/support/checked-auth0.js';
import { DAY_MS } from '../../common/durations.js';
import type { Auth0StandIn } from './index.js';

const START = Date.UTC(2026, 0, 1);
const iso = (ms: number): string => new Date(START + ms).toISOString();

describe('The stand-in for Auth0: lists of users', () => {
  let checked: CheckedAuth0;
  let standIn: Auth0StandIn;
  let now: number;
  beforeEach(async () => {
    now = START + 365 * DAY_MS;
    checked = await startCheckedAuth0({ now: () => now });
    standIn = checked.standIn;
  });
  afterEach(async () => {
    await standIn.stop();
    expect(ownViolations(checked)).toEqual([]);
  });

  const call = (operation: string, body?: unknown): Promise<Called> => callManagementApi(standIn, operation, body);
  const names = async (query: Record<string, string>): Promise<string[]> => {
    const { status, body } = await call(`GET /users?${new URLSearchParams(query).toString()}`);
    expect(status).toBe(200);
    return (body as { name: string }[]).map(({ name }) => name);
  };
  const create = async (email: string): Promise<string> => {
    const user = { connection: 'Username-Password-Authentication', email, password: 'Analytical-1843', verify_email: false };
    return ((await call('POST /users', user)).body as { user_id: string }).user_id;
  };

  describe('the search', () => {
    it.each([
      [{}, 50],
      [{ per_page: '100' }, 50],
      [{ page: '0' }, 50],
      [{ page: '0', per_page: '100' }, 100],
      [{ page: '9', per_page: '100' }, 100],
      [{ page: '0', per_page: '0' }, 0],
    ])('the query %j returns %i users', async (query, count) => {
      standIn.loadUsers(1200);
      expect(await names(query)).toHaveLength(count);
    });

    it.each([
      [{ page: '10', per_page: '100' }, 400],
      [{ page: '20' }, 400],
      [{ page: '19' }, 200],
      [{ page: '10', per_page: '99' }, 400],
    ])('the query %j, near the cap of 1000 users, is answered with %i', async (query, status) => {
      const answer = await call(`GET /users?${new URLSearchParams(query).toString()}`);
      expect(answer.status).toBe(status);
      if (status === 400) expect(answer.body).toMatchObject({ errorCode: 'invalid_paging' });
    });

    it('counts all users, even those beyond the cap', async () => {
      standIn.loadUsers(1200);
      const { body } = await call('GET /users?page=3&per_page=100&include_totals=true&fields=user_id');
      expect(body).toMatchObject({ start: 300, limit: 100, length: 100, total: 1200 });
    });

    it.each([
      ['with both ends included', `["${iso(1000)}" TO "${iso(3000)}"]`, [1, 2, 3]],
      ['with both ends excluded', `{"${iso(1000)}" TO "${iso(3000)}"}`, [2]],
      ['with only its start included', `["${iso(1000)}" TO "${iso(3000)}"}`, [1, 2]],
      ['without quotes', `{${iso(1000)} TO ${iso(3000)}]`, [2, 3]],
      ['with an open end', `["${iso(3000)}" TO *]`, [3, 4]],
      ['with an open start', `[* TO "${iso(999)}"]`, [0]],
      ['of whole days', '[2026-01-01 TO 2026-01-01]', [0, 1, 2, 3, 4]],
      ['of whole days that are excluded', '{2025-12-31 TO 2026-01-01}', []],
      ['of one instant', `"${iso(2000)}"`, [2]],
      ['combined by AND with another range', `["${iso(1000)}" TO *] AND created_at:[* TO "${iso(2000)}"]`, [1, 2]],
      ['combined by OR with another instant', `"${iso(1000)}" OR created_at:"${iso(4000)}"`, [1, 4]],
      ['combined with a name', `["${iso(1000)}" TO *] AND name:"user 3"`, [3]],
      ['combined with a name that is excluded', `["${iso(3000)}" TO *] AND NOT name:"user 3"`, [4]],
      ['combined with ids', `["${iso(3000)}" TO *] AND (user_id:"auth0|nobody" OR user_id:auth0*)`, [3, 4]],
      ['combined with a range of ids', `["${iso(3000)}" TO *] AND user_id:["auth0|" TO "auth0|~"}`, [3, 4]],
    ])('finds users by a range of created_at %s', async (_, range, found) => {
      standIn.loadUsers(5, { createdAt: (index) => START + index * 1000 });
      expect(await names({ q: `created_at:${range}` })).toEqual(found.map((index) => `User ${index}`));
    });

    it.each([
      ['millisecond', 1],
      ['second', 1000],
      ['day', 2000],
    ] as const)('searches created_at with a granularity of one %s', async (granularity, count) => {
      standIn.settings.searchGranularity = granularity;
      standIn.loadUsers(2000, { createdAt: (index) => START + index });
      const range = `created_at:["${iso(500)}" TO "${iso(500)}"]`;
      const { body } = await call(`GET /users?page=0&include_totals=true&q=${encodeURIComponent(range)}`);
      expect(body).toMatchObject({ total: count });
    });

    it.each(['created_at:[a TO b]', 'created_at:["2026-01-01T00:00:00Z"', 'nothing:"x"', 'name:x name:y', ')', 'created_at:'])(
      'refuses the malformed query %s',
      async (q) => {
        expect(await call(`GET /users?q=${encodeURIComponent(q)}`)).toMatchObject({ status: 400, body: { errorCode: 'invalid_query_string' } });
      },
    );

    it.each([
      ['created_at:1', [0, 1, 2]],
      ['created_at:-1', [2, 1, 0]],
      ['name:-1', [2, 1, 0]],
    ])('sorts by %s', async (sort, order) => {
      standIn.loadUsers(3);
      expect(await names({ sort })).toEqual(order.map((index) => `User ${index}`));
    });

    it('returns at most 1000 of thousands created at the same instant, each once', async () => {
      standIn.loadUsers(3000, { createdAt: () => START });
      const seen = new Set<string>();
      for (let page = 0; page < 10; page++) for (const name of await names({ page: `${page}`, per_page: '100' })) seen.add(name);
      expect(seen.size).toBe(1000);
    });

    it('shows new, changed and deleted users only after a delay, when a read by id already shows them', async () => {
      standIn.settings.searchDelayMs = 5000;
      const first = await create('ada@example.com');
      now++;
      const second = await create('grace@example.com');
      const path = `/users/${encodeURIComponent(first)}`;
      expect([(await call(`GET ${path}`)).status, await names({})]).toEqual([200, []]);
      now += 5000;
      expect(await names({})).toEqual(['ada@example.com', 'grace@example.com']);

      await call(`PATCH ${path}`, { name: 'Ada' });
      await call(`DELETE /users/${encodeURIComponent(second)}`);
      expect(await names({})).toEqual(['ada@example.com', 'grace@example.com']);
      standIn.indexUsers();
      expect(await names({})).toEqual(['Ada']);
    });
  });

  describe('an export job', () => {
    const begin = async (body: object = {}): Promise<string> => ((await call('POST /jobs/users-exports', body)).body as { id: string }).id;
    const finished = async (id: string): Promise<{ status: string; location?: string }> => {
      expect((await call(`GET /jobs/${id}`)).body).toMatchObject({ status: 'processing' });
      return (await call(`GET /jobs/${id}`)).body as { status: string; location?: string };
    };
    const download = async (location = ''): Promise<Response> => fetch(location);

    it('contains gzipped lines with the requested fields, each user once', async () => {
      standIn.loadUsers(2500);
      const fields = [{ name: 'user_id' }, { name: 'email', export_as: 'mail' }];
      const { status, location } = await finished(await begin({ format: 'json', fields }));
      const file = await (await download(location)).arrayBuffer();
      const lines = gunzipSync(file).toString().trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, string>);
      expect([status, Object.keys(lines[0] ?? {})]).toEqual(['completed', ['user_id', 'mail']]);
      expect(new Set(lines.map((line) => line.user_id)).size).toBe(2500);
    });

    it('gets a link that is valid for 60 seconds and accepts no bearer token, and later another link', async () => {
      const id = await begin();
      const { location = '' } = await finished(id);
      const authorized = await fetch(location, { headers: { authorization: 'Bearer a.b.c' } });
      expect([(await download(location)).status, authorized.status]).toEqual([200, 400]);
      now += 60_000;
      expect((await download(location)).status).toBe(403);
      const { location: fresh } = (await call(`GET /jobs/${id}`)).body as { location: string };
      expect((await download(fresh)).status).toBe(200);
    });

    it('is deleted after a day', async () => {
      const id = await begin();
      const { location } = await finished(id);
      now += DAY_MS;
      expect([(await call(`GET /jobs/${id}`)).status, (await download(location)).status]).toEqual([404, 403]);
    });

    it('contains the users that the search knows', async () => {
      standIn.settings.searchDelayMs = Infinity;
      await create('ada@example.com');
      const { location } = await finished(await begin());
      expect(gunzipSync(await (await download(location)).arrayBuffer()).toString()).toBe('');
    });

    it('fails when the setting says so', async () => {
      standIn.settings.exportEnd = 'failed';
      const job = await finished(await begin());
      expect([job.status, job.location]).toEqual(['failed', undefined]);
    });

    it.each([
      [{ format: 'xml' }],
      [{ fields: [{ name: 'n'.repeat(101) }] }],
      [{ connection_id: 'Username-Password-Authentication' }],
    ])('is refused for %j', async (body) => {
      expect(await call('POST /jobs/users-exports', body)).toMatchObject({ status: 400, body: { errorCode: 'invalid_body' } });
    });
  });
});
