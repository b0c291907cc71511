import { ProviderError } from '../../../domain/errors.js';
import type { FoundUser } from './found-user.js';

export interface FoundPage {
  /** The position of the page's first user among all matches. */
  readonly start: number;
  /** The number of matches. */
  readonly total: number;
  readonly users: readonly FoundUser[];
}

export interface UserSource {
  /**
   * Returns a page of the users created at `from` (milliseconds since 1970) or later, oldest first; of all users if
   * `from` is undefined. The first page is 0. Undefined when the call failed and must be made again.
   */
  readonly search: (from: number | undefined, page: number) => Promise<FoundPage | undefined>;
  /** How many pages a search has at most. */
  readonly searchPages: number;
  /** Reads all users from an export, in any order. */
  readonly exported: () => AsyncIterable<readonly FoundUser[]>;
}

/** How often a search is restarted because users were deleted, before an export replaces it. */
const MOST_RETURNS = 20;

/**
 * Reads all users, each once and oldest first. Each search begins at the last user of the previous one. So no search
 * reaches its limit, and a deletion doesn't move users past the reader. The rest comes from an export, in any order, in
 * two cases: more users share a creation time than a search shows, or users are deleted again and again during the
 * search. Yields a page after each search call, possibly an empty one, except for calls that fail before the first
 * page. Keeps the ids of one search's users in memory.
 *
 * @throws ProviderError when a search returns users in another order, because users might be missed.
 */
export async function* usersByCreation({ search, searchPages, exported }: UserSource): AsyncGenerator<readonly FoundUser[], void, undefined> {
  let from: number | undefined;
  /** The yielded users created at `from` or later. All users created earlier have been yielded. */
  const given = new Map<string, number>();
  const isFresh = ({ user_id, created_at }: FoundUser): boolean => created_at >= (from ?? -Infinity) && !given.has(user_id);
  /**
   * Whether the search compares creation times less precisely than users' data state them, so that its results begin
   * with users created before `from`.
   */
  let isCoarse = false;
  let known = 0;
  /** The creation time of the last user on the previous page. */
  let latest = -Infinity;
  let returns = 0;
  for (let page = 0; page < searchPages && returns < MOST_RETURNS; ) {
    const found = await search(from, page);
    if (!found) {
      // If the very first calls fail, the list hasn't begun, so nothing is yielded.
      if (latest > -Infinity) yield [];
      continue;
    }
    const { start, total, users } = found;
    const [hasGrown, hasShrunk] = [page > 0 && total > known, page > 0 && total < known];
    known = total;
    if (hasShrunk) {
      // A user was deleted, so the users after it have moved up.
      page = 0;
      returns++;
      yield [];
      continue;
    }
    // If a user was added, users of the previous page may have moved down to this one.
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
