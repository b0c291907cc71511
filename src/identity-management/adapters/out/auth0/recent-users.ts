const KEPT_MS = 600_000;
const MOST = 10_000;

/**
 * The users that this process has created or changed in the last ten minutes, 10,000 at most: those that a search may not
 * know yet, or not as they are.
 */
export class RecentUsers {
  private readonly users = new Map<string, { readonly at: number; readonly updatedAt: number }>();

  /** @param updatedAt by Auth0's account, in milliseconds since 1970; `Infinity` where it isn't known. */
  add(userId: string, updatedAt: number): void {
    this.users.delete(userId);
    this.users.set(userId, { at: performance.now(), updatedAt });
    this.forget();
  }

  /** Each one's time of the last change: what a search tells from before it is out of date. A copy. */
  updateTimes(): Map<string, number> {
    this.forget();
    return new Map(Array.from(this.users, ([userId, { updatedAt }]) => [userId, updatedAt]));
  }

  private forget(): void {
    const oldest = performance.now() - KEPT_MS;
    for (const [userId, { at }] of this.users) {
      if (at >= oldest && this.users.size <= MOST) return;
      this.users.delete(userId);
    }
  }
}
