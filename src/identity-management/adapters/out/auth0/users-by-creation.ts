import { ProviderError } from '../../../domain/errors.js';
import type { FoundUser } from './found-user.js';

export interface FoundPage {
  /** The position of the page's first user among all users that match the search. */
  readonly start: number;
  /** The number of all users that match the search. */
  readonly total: number;
  readonly users: readonly FoundUser[];
}

export interface UserSource {
  /**
   * Returns one page of the users created at `from` (milliseconds since 1970) or later, oldest first. Without `from`,
   * of all users. The first page is 0. Returns undefined if the call failed and must be made again.
   */
  readonly search: (from: number | undefined, page: number) => Promise<FoundPage | undefined>;
  /** The largest number of pages that can be read of the results of one search. */
  readonly searchPages: number;
  /** Reads all users of the tenant from an export, in any order. */
  readonly exported: () => AsyncIterable<readonly FoundUser[]>;
}

/** When deletions of users have interrupted one search this many times, the remaining users are read from an export. */
const MAX_RETURNS = 20;

/**
 * Reads all users, each once and usually oldest first, with many searches. Each search begins at the creation time of
 * the last user read from the previous search. So usually no search reaches the limit of its results, and the deletion
 * of a user doesn't move other users past the reader. The rest of the users comes from an export, in any order, in two
 * cases: more users than a search shows were created at almost the same time, or users are deleted again and again
 * during one search. Yields a page after each search call, possibly an empty one, except for calls that fail before the
 * first page. Keeps the ids of one search's users in memory.
 *
 * @throws ProviderError when a search is found to return users in another order than oldest first, because users might
 * be missed; errors of the source.
 */
export async function* usersByCreation({ search, searchPages, exported }: UserSource): AsyncGenerator<readonly FoundUser[], void, undefined> {
  let from: number | undefined;
  /**
   * The users already yielded that were created at `from` or later: their creation times by user id. All users created
   * before `from` have been yielded too.
   */
  const given = new Map<string, number>();
  const isFresh = ({ user_id, created_at }: FoundUser): boolean => created_at >= (from ?? -Infinity) && !given.has(user_id);
  /**
   * Whether the search rounds times. If so, the results of a search from `from` on begin with users who were created
   * shortly before `from`.
   */
  let isCoarse = false;
  let known = 0;
  /** The creation time of the last user on the previous page. */
  let latest = -Infinity;
  let returns = 0;
  for (let page = 0; page < searchPages && returns < MAX_RETURNS; ) {
    const found = await search(from, page);
    if (!found) {
      // Nothing is yielded while the very first call fails, because the list of users hasn't begun yet.
      if (latest > -Infinity) yield [];
      continue;
    }
    const { start, total, users } = found;
    const [hasGrown, hasShrunk] = [page > 0 && total > known, page > 0 && total < known];
    known = total;
    if (hasShrunk) {
      // A smaller total than on the previous page means that a user was deleted. The users after the deleted one have
      // moved up, perhaps to a page that was read already. So the search begins again at its first page.
      page = 0;
      returns++;
      yield [];
      continue;
    }
    // The first user of a page must not be older than the last user of the previous page. This isn't checked if a user
    // was added in between, because users of the previous page may then have moved down to this page.
    assertOldestFirst(users, page === 0 || hasGrown ? -Infinity : latest);
    if (page === 0) isCoarse = (users[0]?.created_at ?? Infinity) < (from ?? -Infinity);
    const fresh = users.filter(isFresh);
    for (const { user_id, created_at } of fresh) given.set(user_id, created_at);
    yield fresh;
    if (users.length === 0 || start + users.length >= total) return;
    latest = users.at(-1)?.created_at ?? latest;
    page++;
    if (latest > (from ?? -Infinity) && (!isCoarse || page === searchPages)) {
      from = latest;
      page = 0;
      returns = 0;
      for (const [userId, createdAt] of given) if (createdAt < from) given.delete(userId);
    }
  }
  for await (const users of exported()) yield users.filter(isFresh);
}

function assertOldestFirst(users: readonly FoundUser[], least: number): void {
  const times = [least, ...users.map(({ created_at }) => created_at)];
  if (times.some((time, index) => time < (times[index - 1] ?? -Infinity))) {
    throw new ProviderError('The search does not sort users by the time of their creation, to the millisecond.');
  }
}
