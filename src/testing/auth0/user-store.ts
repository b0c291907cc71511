import type { UserRecord } from './user-record.js';
import { UserIndex } from './user-index.js';

/** A simulated tenant's users. Reads by id or e-mail show a change at once; the search (`index`) may do so later. */
export class UserStore {
  readonly index = new UserIndex();
  private readonly users = new Map<string, UserRecord>();
  private readonly idsByEmail = new Map<string, Set<string>>();

  get size(): number {
    return this.users.size;
  }

  get(userId: string): UserRecord | undefined {
    return this.users.get(userId);
  }

  all(): IterableIterator<UserRecord> {
    return this.users.values();
  }

  withEmail(email: string): UserRecord[] {
    return Array.from(this.idsByEmail.get(email) ?? [], (id) => this.users.get(id)).filter((user) => user !== undefined);
  }

  /**
   * Adds or replaces a user.
   *
   * @param searchableAt when the search begins to find this version of the user, in milliseconds since 1970.
   */
  put(user: UserRecord, searchableAt: number): void {
    this.unlist(user.userId);
    this.users.set(user.userId, user);
    const ids = this.idsByEmail.get(user.email) ?? new Set();
    this.idsByEmail.set(user.email, ids.add(user.userId));
    this.index.note(user.userId, user, searchableAt);
  }

  /** Removes a user. The search can still find the user until `searchableAt`, in milliseconds since 1970. */
  remove(userId: string, searchableAt: number): void {
    this.unlist(userId);
    if (this.users.delete(userId)) this.index.note(userId, undefined, searchableAt);
  }

  private unlist(userId: string): void {
    const email = this.users.get(userId)?.email;
    if (email !== undefined) this.idsByEmail.get(email)?.delete(userId);
  }
}
