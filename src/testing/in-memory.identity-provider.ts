import { randomUUID } from 'node:crypto';
import { noLongerAwaited } from '../identity-management/application/ports/awaited.js';
import { IdentityProvider, type ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import {
  RoleAlreadyExists,
  RoleNotFound,
  UserAlreadyExists,
  UserNotFound,
} from '../identity-management/domain/errors.js';
import type { NewRole, Role } from '../identity-management/domain/role.js';
import type { NewUser, User } from '../identity-management/domain/user.js';

interface KeptUser extends User {
  readonly roleIds: Set<string>;
}

/** An identity provider in memory, for tests. Fails or hangs if a test wants it. */
export class InMemoryIdentityProvider extends IdentityProvider {
  lastSignal: AbortSignal | undefined;
  openLists = 0;

  private readonly roles = new Map<string, NewRole>();
  private readonly users = new Map<string, KeptUser>();
  private failure: Error | undefined;
  private gate = Promise.resolve();
  private openGate = (): void => undefined;

  constructor(private readonly pageSize = 100) {
    super();
  }

  /**
   * Makes every call, and every request for a page, reject with this error until `recover` is called. Calls that wait
   * because of `hang` reject too.
   */
  failWith(error: Error): void {
    this.failure = error;
    this.openGate();
  }

  /**
   * Keeps every call, and every request for a page, waiting until `recover` or `failWith` is called, even if the signal
   * of the call aborts.
   */
  hang(): void {
    const releaseEarlier = this.openGate;
    this.gate = new Promise((resolve) => {
      this.openGate = () => {
        releaseEarlier();
        resolve();
      };
    });
  }

  /** Ends the effects of `failWith` and `hang`. Calls that were waiting continue. */
  recover(): void {
    this.failure = undefined;
    this.openGate();
  }

  override async createRole(role: NewRole, options: ProviderCallOptions): Promise<string> {
    await this.begin(options);
    if ([...this.roles.values()].some(({ name }) => name === role.name)) throw new RoleAlreadyExists('role name');
    const roleId = `role_${randomUUID()}`;
    this.roles.set(roleId, role);
    return roleId;
  }

  override async createUser({ email, name, roleIds }: NewUser, options: ProviderCallOptions): Promise<string> {
    await this.begin(options);
    if ([...this.users.values()].some((user) => user.email === email)) throw new UserAlreadyExists('email');
    for (const roleId of roleIds) this.assertRole(roleId);
    const userId = `memory|${randomUUID()}`;
    this.users.set(userId, { userId, email, name, roleIds: new Set(roleIds) });
    return userId;
  }

  override async updateUser(userId: string, { name }: { readonly name: string }, options: ProviderCallOptions): Promise<void> {
    await this.begin(options);
    this.users.set(userId, { ...this.user(userId), name });
  }

  override async assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void> {
    await this.begin(options);
    const { roleIds } = this.user(userId);
    this.assertRole(roleId);
    roleIds.add(roleId);
  }

  override listRoles(options: ProviderCallOptions): AsyncGenerator<readonly Role[], void, undefined> {
    return this.pages(options, () => [...this.roles].map(([roleId, { name }]) => ({ roleId, name })));
  }

  override listUsers(options: ProviderCallOptions): AsyncGenerator<readonly User[], void, undefined> {
    return this.pages(options, () => [...this.users.values()].map(({ userId, name, email }) => ({ userId, name, email })));
  }

  override async checkHealth(options: ProviderCallOptions): Promise<void> {
    await this.begin(options);
  }

  /**
   * Returns the permissions of a user's roles, each once.
   *
   * @throws UserNotFound when no user has that id.
   */
  permissionsOf(userId: string): string[] {
    const permissions = [...this.user(userId).roleIds].flatMap((roleId) => this.roles.get(roleId)?.permissions ?? []);
    return [...new Set(permissions)];
  }

  private async *pages<Item>(options: ProviderCallOptions, all: () => Item[]): AsyncGenerator<readonly Item[], void, undefined> {
    this.openLists++;
    try {
      await this.begin(options);
      const items = all();
      for (let start = 0; start < items.length; start += this.pageSize) {
        if (start > 0) await this.begin(options);
        yield items.slice(start, start + this.pageSize);
      }
    } finally {
      this.openLists--;
    }
  }

  private async begin({ signal }: ProviderCallOptions): Promise<void> {
    this.lastSignal = signal;
    await this.gate;
    if (this.failure) throw this.failure;
    if (signal.aborted) throw noLongerAwaited(signal);
  }

  private user(userId: string): KeptUser {
    const user = this.users.get(userId);
    if (!user) throw new UserNotFound('user_id');
    return user;
  }

  private assertRole(roleId: string): void {
    if (!this.roles.has(roleId)) throw new RoleNotFound('role_id');
  }
}
