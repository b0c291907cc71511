import { ProviderError } from '../../../domain/errors.js';
import type { FoundUser } from './found-user.js';

export interface FoundPage {
  /** The place of the first one among all that were found. */
  readonly start: number;
  /** How many were found. */
  readonly total: number;
  readonly users: readonly FoundUser[];
}

export interface UserSource {
  /**
   * A page, from 0, of those created at that time (milliseconds since 1970) or later, the oldest first; of all without one.
   * Undefined where it has failed for once, and is to be asked again.
   */
  readonly search: (from: number | undefined, page: number) => Promise<FoundPage | undefined>;
  /** How many pages a search has at most. */
  readonly searchPages: number;
  /** All, in any order. */
  readonly exported: () => AsyncIterable<readonly FoundUser[]>;
}

/** So often a search is begun again because users were deleted, before an export takes its place. */
const MOST_RETURNS = 20;

/**
 * All users, each once, the oldest first, by searches that each begin at the last user of the one before: so no search
 * comes to its limit, and who is deleted meanwhile moves nobody past us. Where more users share a time than a search shows,
 * or users are deleted again and again while it is read, the rest comes from an export, in any order. After each search but
 * a first one that fails comes a page, maybe an empty one. Holds the ids of one search's users.
 *
 * @throws ProviderError when a search has another order, in which users might be missed.
 */
export async function* usersByCreation({ search, searchPages, exported }: UserSource): AsyncGenerator<readonly FoundUser[], void, undefined> {
  let from: number | undefined;
  /** Those that were given, of all created at `from` or later; whoever was created before was given. */
  const given = new Map<string, number>();
  const isFresh = ({ user_id, created_at }: FoundUser): boolean => created_at >= (from ?? -Infinity) && !given.has(user_id);
  /** Whether the search tells times less finely than users have them, so that one begins before the time asked for. */
  let isCoarse = false;
  let known = 0;
  /** Of the page before, which has given somebody. */
  let latest = -Infinity;
  let returns = 0;
  for (let page = 0; page < searchPages && returns < MOST_RETURNS; ) {
    const found = await search(from, page);
    if (!found) {
      // A list that fails at once has not begun.
      if (latest > -Infinity) yield [];
      continue;
    }
    const { start, total, users } = found;
    const [hasGrown, hasShrunk] = [page > 0 && total > known, page > 0 && total < known];
    known = total;
    if (hasShrunk) {
      // Somebody was deleted, and all behind them have moved up.
      page = 0;
      returns++;
      yield [];
      continue;
    }
    // Where somebody has come, those of the page before may have moved down to this one.
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
