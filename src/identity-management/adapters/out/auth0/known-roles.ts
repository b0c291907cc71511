const KEPT_MS = 60_000;
const MOST = 1_000;

/**
 * The ids of roles that were there, and could be given, a minute ago. That one is deleted meanwhile does no harm: it is
 * taken from all who have it.
 */
export class KnownRoles {
  private readonly seenAt = new Map<string, number>();

  add(roleId: string): void {
    this.seenAt.delete(roleId);
    this.seenAt.set(roleId, performance.now());
    const [oldest] = this.seenAt.keys();
    if (this.seenAt.size > MOST && oldest !== undefined) this.seenAt.delete(oldest);
  }

  has(roleId: string): boolean {
    return performance.now() - (this.seenAt.get(roleId) ?? -Infinity) < KEPT_MS;
  }

  forget(roleId: string): void {
    this.seenAt.delete(roleId);
  }
}
