import { ProviderError } from '../../../domain/errors.js';
import type { FoundUser } from './found-user.js';

export interface FoundPage {
  readonly start: number;
  readonly total: number;
  readonly users: readonly FoundUser[];
}

export interface UserSource {
  /**
   * One page (from 0) of the users created at `from` (milliseconds since 1970) or later, oldest first; undefined if the
   * call must be made again.
   */
  readonly search: (from: number | undefined, page: number) => Promise<FoundPage | undefined>;
  readonly searchPages: number;
  readonly exported: () => AsyncIterable<readonly FoundUser[]>;
}

/** How often deletions may interrupt one search before the remaining users are read from an export. */
const MAX_RETURNS = 20;

/**
 * Reads all users, each once and usually oldest first. Each search begins at the creation time of the last user of the
 * previous one, so that usually none reaches the limit of its results, and deletions don't move other users past the
 * reader. If too many users were created at almost the same time, or users are deleted again and again, the rest comes
 * from an export, in any order. Keeps the ids of one search's users in memory.
 *
 * @throws ProviderError when a search is found not to be sorted oldest first, because users might be missed; errors of
 * the source.
 */
export async function* usersByCreation({ search, searchPages, exported }: UserSource): AsyncGenerator<readonly FoundUser[], void, undefined> {
  let from: number | undefined;
  /** The creation times of yielded users created at `from` or later. Users created earlier have all been yielded. */
  const given = new Map<string, number>();
  const isFresh = ({ user_id, created_at }: FoundUser): boolean => created_at >= (from ?? -Infinity) && !given.has(user_id);
  /** Whether the search rounds times, so that its results begin with users created shortly before `from`. */
  let isCoarse = false;
  let known = 0;
  let latest = -Infinity;
  let returns = 0;
  for (let page = 0; page < searchPages && returns < MAX_RETURNS; ) {
    const found = await search(from, page);
    if (!found) {
      // Nothing is yielded before the first call has succeeded, because the list hasn't begun yet.
      if (latest > -Infinity) yield [];
      continue;
    }
    const { start, total, users } = found;
    const [hasGrown, hasShrunk] = [page > 0 && total > known, page > 0 && total < known];
    known = total;
    if (hasShrunk) {
      // A user was deleted, and later ones have moved up, perhaps to a page that was read. The search begins again.
      page = 0;
      returns++;
      yield [];
      continue;
    }
    // The order across pages isn't checked if a user was added: users of the previous page may be on this one too.
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
