import type { FoundUser } from './found-user.js';

export interface FoundPage {
  /** The place of the first one among all that were found. */
  readonly start: number;
  /** How many were found. */
  readonly total: number;
  readonly users: readonly FoundUser[];
}

export interface UserSource {
  /** A page, from 0, of those created at that time (milliseconds since 1970) or later, the oldest first; of all without one. */
  readonly search: (from: number | undefined, page: number) => Promise<FoundPage>;
  /** How many pages a search has at most. */
  readonly searchPages: number;
  /** All, in any order. */
  readonly exported: () => AsyncIterable<readonly FoundUser[]>;
}

/**
 * All users, each once, the oldest first, by searches that each begin at the last user of the one before: so no search
 * comes to its limit, and who is deleted meanwhile moves nobody past us. Where more users share a time than a search shows
 * the rest comes from an export, in any order. Holds the ids of one search's users.
 */
export async function* usersByCreation({ search, searchPages, exported }: UserSource): AsyncGenerator<readonly FoundUser[], void, undefined> {
  let from: number | undefined;
  /** Those that were given, of all created at `from` or later; whoever was created before was given. */
  const given = new Map<string, number>();
  const isFresh = ({ user_id, created_at }: FoundUser): boolean => created_at >= (from ?? -Infinity) && !given.has(user_id);
  /** Whether the search tells times less finely than users have them, so that one begins before the time asked for. */
  let isCoarse = false;
  let known = 0;
  for (let page = 0; page < searchPages; ) {
    const { start, total, users } = await search(from, page);
    const isShorter = page > 0 && total < known;
    known = total;
    if (isShorter) {
      // Somebody was deleted, and all behind them have moved up.
      page = 0;
      continue;
    }
    if (page === 0) isCoarse = (users[0]?.created_at ?? Infinity) < (from ?? -Infinity);
    const fresh = users.filter(isFresh);
    for (const { user_id, created_at } of fresh) given.set(user_id, created_at);
    if (fresh.length > 0) yield fresh;
    const last = users.at(-1)?.created_at;
    if (last === undefined || start + users.length >= total) return;
    page++;
    if (last > (from ?? -Infinity) && (!isCoarse || page === searchPages)) {
      from = last;
      page = 0;
      for (const [userId, createdAt] of given) if (createdAt < last) given.delete(userId);
    }
  }
  for await (const users of exported()) yield users.filter(isFresh);
}
