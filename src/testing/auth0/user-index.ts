import { lowerBound } from '../lower-bound.js';
import type { UserQuery } from './user-query.js';
import type { UserRecord } from './user-record.js';

interface Change {
  readonly userId: string;
  readonly user: UserRecord | undefined;
  readonly at: number;
}

export interface UserOrder {
  readonly field: string;
  readonly isDescending: boolean;
}

/** The search index of a tenant's users. A noted change of a user gets into the index only when it is due. */
export class UserIndex {
  private readonly users = new Map<string, UserRecord>();
  private byCreation: UserRecord[] = [];
  private isSorted = true;
  private pending: Change[] = [];

  note(userId: string, user: UserRecord | undefined, at: number): void {
    this.pending.push({ userId, user, at });
  }

  /** Applies to the index the changes that are due at `now`, in milliseconds since 1970. */
  catchUp(now: number): void {
    const due = this.pending.filter(({ at }) => at <= now);
    if (due.length === 0) return;
    this.pending = this.pending.filter(({ at }) => at > now);
    for (const { userId, user } of due) {
      if (user) this.users.set(userId, user);
      else this.users.delete(userId);
    }
    this.isSorted = false;
  }

  /** @param order the order of the users found. Default, and for an unknown field: by `created_at`, then by id. */
  find(query: UserQuery, { start, limit }: { start: number; limit: number }, order?: UserOrder): { users: UserRecord[]; total: number } {
    const ordered = this.sorted();
    const first = firstFrom(ordered, query.from);
    const end = Math.max(first, firstFrom(ordered, query.until));
    const isByTime = order === undefined || (order.field === 'created_at' && !order.isDescending);
    if (isByTime && query.rest === undefined) {
      return { users: ordered.slice(Math.min(end, first + start), Math.min(end, first + start + limit)), total: end - first };
    }
    const { rest } = query;
    const found = rest ? ordered.slice(first, end).filter((user) => rest(user)) : ordered.slice(first, end);
    if (order) sort(found, order);
    return { users: found.slice(start, start + limit), total: found.length };
  }

  all(): readonly UserRecord[] {
    return this.sorted();
  }

  private sorted(): UserRecord[] {
    if (!this.isSorted) {
      this.byCreation = [...this.users.values()].sort((a, b) => a.createdAt - b.createdAt || compare(a.userId, b.userId));
      this.isSorted = true;
    }
    return this.byCreation;
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function sort(users: UserRecord[], { field, isDescending }: UserOrder): void {
  const keys: Record<string, (user: UserRecord) => string | number> = {
    created_at: ({ createdAt }) => createdAt,
    updated_at: ({ updatedAt }) => updatedAt,
    email: ({ email }) => email,
    name: ({ name }) => name,
    user_id: ({ userId }) => userId,
  };
  const key = Object.hasOwn(keys, field) ? keys[field] : undefined;
  if (!key) return;
  const sign = isDescending ? -1 : 1;
  users.sort((a, b) => {
    const [one, other] = [key(a), key(b)];
    return sign * (one < other ? -1 : one > other ? 1 : 0) || compare(a.userId, b.userId);
  });
}

const firstFrom = (users: readonly UserRecord[], time: number): number => lowerBound(users, ({ createdAt }) => createdAt < time);
