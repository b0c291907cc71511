const KEPT_MS = 600_000;
const MOST = 10_000;

/**
 * The users that this process has, or may have, created or changed in the last ten minutes, at most the latest 10,000.
 * Auth0's search may not have the current data of these users yet.
 */
export class RecentUsers {
  private readonly users = new Map<string, { readonly at: number; readonly updatedAt: number }>();

  /**
   * @param updatedAt the time of the user's last update as reported by Auth0, in milliseconds since 1970; `Infinity` if
   * unknown.
   */
  add(userId: string, updatedAt: number): void {
    this.users.delete(userId);
    this.users.set(userId, { at: performance.now(), updatedAt });
    this.forget();
  }

  /**
   * The `updatedAt` of each remembered user, by id. A search result with an earlier time of update counts as outdated.
   */
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
