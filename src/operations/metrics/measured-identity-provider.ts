import type { OnApplicationShutdown } from '@nestjs/common';
import type { Observer } from '../../common/observer.js';
import {
  IdentityProvider,
  type ProviderCallOptions,
} from '../../identity-management/application/ports/identity-provider.port.js';
import { IdentityRefusal } from '../../identity-management/domain/errors.js';
import type { NewRole, Role } from '../../identity-management/domain/role.js';
import type { NewUser, User } from '../../identity-management/domain/user.js';
import { measuredCalls } from './measured-calls.js';
import type { Metrics } from './metrics.js';
import type { Ownership } from './ownership.js';

/**
 * Passes calls on to an identity provider, counts them and measures how long they take. For a list of pages, each call
 * of the iterator's `next` counts as a call. Forwards the application's shutdown to the provider if `ownership` is
 * `owned`.
 */
export class MeasuredIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly measured: Observer;

  constructor(
    private readonly provider: IdentityProvider & Partial<OnApplicationShutdown>,
    metrics: Metrics,
    private readonly ownership: Ownership = 'owned',
  ) {
    super();
    this.measured = measuredCalls(metrics.providerCalls, (error) => (error instanceof IdentityRefusal ? 'refused' : 'failed'));
  }

  override createRole(role: NewRole, options: ProviderCallOptions): Promise<string> {
    return this.measured('createRole', () => this.provider.createRole(role, options));
  }

  override createUser(user: NewUser, options: ProviderCallOptions): Promise<string> {
    return this.measured('createUser', () => this.provider.createUser(user, options));
  }

  override updateUser(userId: string, change: { readonly name: string }, options: ProviderCallOptions): Promise<void> {
    return this.measured('updateUser', () => this.provider.updateUser(userId, change, options));
  }

  override assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void> {
    return this.measured('assignRole', () => this.provider.assignRole(userId, roleId, options));
  }

  override listRoles(options: ProviderCallOptions): AsyncIterable<readonly Role[]> {
    return this.measuredPages('listRoles', this.provider.listRoles(options));
  }

  override listUsers(options: ProviderCallOptions): AsyncIterable<readonly User[]> {
    return this.measuredPages('listUsers', this.provider.listUsers(options));
  }

  override checkHealth(options: ProviderCallOptions): Promise<void> {
    return this.measured('checkHealth', () => this.provider.checkHealth(options));
  }

  override get warnings(): readonly string[] {
    return this.provider.warnings;
  }

  async onApplicationShutdown(signal?: string): Promise<void> {
    if (this.ownership === 'owned') await this.provider.onApplicationShutdown?.(signal);
  }

  private measuredPages<Item>(operation: string, pages: AsyncIterable<readonly Item[]>): AsyncIterable<readonly Item[]> {
    return {
      [Symbol.asyncIterator]: () => {
        const iterator = pages[Symbol.asyncIterator]();
        return {
          next: () => this.measured(operation, () => iterator.next()),
          return: async () => (await iterator.return?.()) ?? { done: true, value: undefined },
        };
      },
    };
  }
}
