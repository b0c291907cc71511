const KEPT_MS = 600_000;
const MOST = 10_000;

/**
 * Users that this process may have created or changed in the last ten minutes, at most the latest 10,000. Auth0's
 * search may not have their current data yet.
 */
export class RecentUsers {
  private readonly users = new Map<string, { readonly at: number; readonly updatedAt: number }>();

  /** @param updatedAt the last update as reported by Auth0, in milliseconds since 1970; `Infinity` if unknown. */
  add(userId: string, updatedAt: number): void {
    this.users.delete(userId);
    this.users.set(userId, { at: performance.now(), updatedAt });
    this.forget();
  }

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
