import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProviderError } from '../../../domain/errors.js';
import type { FoundUser } from './found-user.js';
import { usersByCreation } from './users-by-creation.js';

const PAGE_SIZE = 4;
const SEARCH_PAGES = 3;

const aUser = (id: number, created_at: number): FoundUser => ({ user_id: String(id), created_at, updated_at: created_at });

interface Reading {
  readonly ids: string[];
  readonly searches: number;
  readonly exports: number;
  /** The largest number of successive search calls without a page yielded between them. */
  readonly searchesInSilence: number;
}

interface Search {
  /** To which unit, in milliseconds, the search rounds down the time from which it searches (default: 1). */
  readonly granularity?: number;
  /**
   * The value by which the search sorts users; users with equal values are sorted by id. Default: the time of creation.
   */
  readonly order?: (user: FoundUser) => number;
  /** Called before each search. Returns true if the search is to fail. */
  readonly before?: () => boolean;
}

async function readAll(users: () => readonly FoundUser[], { granularity = 1, order = ({ created_at: at }) => at, before = () => false }: Search): Promise<Reading> {
  const ids: string[] = [];
  let [searches, exports, silent, searchesInSilence] = [0, 0, 0, 0];
  const source = {
    searchPages: SEARCH_PAGES,
    search: (from: number | undefined, page: number) => {
      searches++;
      searchesInSilence = Math.max(searchesInSilence, ++silent);
      if (before()) return Promise.resolve(undefined);
      const least = from === undefined ? -Infinity : Math.floor(from / granularity) * granularity;
      const found = users()
        .filter(({ created_at }) => created_at >= least)
        .sort((a, b) => order(a) - order(b) || Number(a.user_id) - Number(b.user_id));
      const start = page * PAGE_SIZE;
      return Promise.resolve({ start, total: found.length, users: found.slice(start, start + PAGE_SIZE) });
    },
    exported: async function* () {
      exports++;
      yield [];
      yield await Promise.resolve([...users()].reverse());
    },
  };
  for await (const page of usersByCreation(source)) {
    silent = 0;
    ids.push(...page.map(({ user_id }) => user_id));
  }
  return { ids, searches, exports, searchesInSilence };
}

const times = fc.array(fc.oneof(fc.integer({ min: 0, max: 40 }), fc.constant(7), fc.integer({ min: 0, max: 5000 })), { maxLength: 60 });
const granularity = fc.constantFrom(1, 10, 1000);

describe('users by the time of their creation', () => {
  it('are all listed, each once, however many share a time and whatever the granularity of the search', async () => {
    await fc.assert(
      fc.asyncProperty(times, granularity, async (created, unit) => {
        const users = created.map((time, id) => aUser(id, time));
        const { ids } = await readAll(() => users, { granularity: unit });
        expect(ids.toSorted()).toEqual(users.map(({ user_id }) => user_id).toSorted());
      }),
    );
  });

  it('are all listed, except deleted ones, while some are deleted before every search', async () => {
    const staying = Array.from({ length: 40 }, (_, id) => aUser(id, 7));
    let leaving = Array.from({ length: 1_000 }, (_, id) => aUser(100 + id, 8));
    const before = () => {
      leaving = leaving.slice(1);
      if (leaving.length === 0) throw new Error('The list is not over when all have left.');
      return false;
    };
    const { ids, exports } = await readAll(() => [...staying, ...leaving], { before });
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(expect.arrayContaining(staying.map(({ user_id }) => user_id)));
    expect(exports).toBe(1);
  });

  it('are all listed, each once, while others are deleted and created', async () => {
    const changes = fc.array(fc.tuple(fc.array(fc.nat(), { maxLength: 2 }), fc.boolean(), fc.boolean()), { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(times, granularity, changes, async (created, unit, coming) => {
        let users = created.map((time, id) => aUser(id, time));
        const [left, ahead] = [new Set<string>(), [...coming]];
        let hasBegun = false;
        const before = (): boolean => {
          const [out = [], isCreation = false, isFailure = false] = ahead.shift() ?? [];
          if (isFailure && hasBegun) return true;
          hasBegun = true;
          // A step either adds one user or removes users. If it did both, the total could stay the same, and the reader
          // couldn't notice the change.
          if (isCreation) users.push(aUser(1_000 + ahead.length, 10_000 - ahead.length));
          else for (const place of out) if (users.length > 0) left.add(users[place % users.length]?.user_id ?? '');
          users = users.filter(({ user_id }) => !left.has(user_id));
          return false;
        };
        const listed = await readAll(() => users, { granularity: unit, before });
        expect(new Set(listed.ids).size).toBe(listed.ids.length);
        expect(listed.searchesInSilence).toBe(1);
        const staying = created.map((_, id) => String(id)).filter((id) => !left.has(id));
        expect(listed.ids).toEqual(expect.arrayContaining(staying));
      }),
    );
  });

  it.each<[string, number[], number, { searches: number; exports: number }]>([
    ['no users', [], 1, { searches: 1, exports: 0 }],
    ['less than a page', [1, 2, 3], 1, { searches: 1, exports: 0 }],
    ['a page', [1, 2, 3, 4], 1, { searches: 1, exports: 0 }],
    ['ten pages, each starting with the last user of the previous one', Array.from({ length: 31 }, (_, id) => id), 1, { searches: 10, exports: 0 }],
    ['as many users with the same time as a search returns', Array<number>(12).fill(5), 1, { searches: 4, exports: 0 }],
    ['one user more than a search returns, all with the same time', Array<number>(13).fill(5), 1, { searches: 4, exports: 1 }],
    ['as many users in one unit of the search as it returns', Array.from({ length: 12 }, (_, id) => 1000 + id), 1000, { searches: 4, exports: 0 }],
    ['more users in one unit of the search than it returns', Array.from({ length: 14 }, (_, id) => 1000 + id), 1000, { searches: 7, exports: 1 }],
  ])('take the minimum number of calls for %s', async (_, created, unit, calls) => {
    const { searches, exports } = await readAll(() => created.map((time, id) => aUser(id, time)), { granularity: unit });
    expect({ searches, exports }).toEqual(calls);
  });

  it.each<[string, number[], Search]>([
    ['sorts by seconds', [1_003, 1_002, 1_001], { order: ({ created_at: at }) => Math.floor(at / 1_000) }],
    ['sorts by seconds, as the next page shows', [1_005, 1_005, 1_005, 1_005, 1_001, 1_001], { granularity: 1_000, order: () => 1_000 }],
    ['does not sort', [5, 1, 3], { order: () => 0 }],
  ])('are not listed as complete when the search %s', async (_, created, search) => {
    await expect(readAll(() => created.map((time, id) => aUser(id, time)), search)).rejects.toThrow(ProviderError);
  });

  it('are all listed when the search shows some late, among earlier ones', async () => {
    const users = Array.from({ length: 9 }, (_, id) => aUser(id, 1_001 + id));
    let searches = 0;
    const before = (): boolean => {
      // The third call of `search` asks for the second page of the second search.
      if (++searches === 3) users.push(aUser(100, 1_000), aUser(101, 1_000));
      return false;
    };
    expect((await readAll(() => users, { granularity: 1_000, before })).ids).toEqual(expect.arrayContaining(Array.from({ length: 9 }, (_, id) => String(id))));
  });
});
