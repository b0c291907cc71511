const KEPT_MS = 60_000;
const MOST = 1_000;

/**
 * Roles that were there, and could be given, a minute ago; 1,000 at most. Whether one was deleted meanwhile tells the
 * provider when it is given.
 */
export class KnownRoles<Role extends { readonly id: string }> {
  private readonly seen = new Map<string, { readonly role: Role; readonly at: number }>();

  add(role: Role): void {
    this.seen.delete(role.id);
    this.seen.set(role.id, { role, at: performance.now() });
    const [oldest] = this.seen.keys();
    if (this.seen.size > MOST && oldest !== undefined) this.seen.delete(oldest);
  }

  get(id: string): Role | undefined {
    const known = this.seen.get(id);
    return known && performance.now() - known.at < KEPT_MS ? known.role : undefined;
  }

  forget(id: string): void {
    this.seen.delete(id);
  }
}
