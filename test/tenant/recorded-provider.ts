import type { NewRole, Role } from '../../src/identity-management/domain/role.js';
import type { NewUser, User } from '../../src/identity-management/domain/user.js';
import { IdentityProvider, type ProviderCallOptions } from '../../src/identity-management/application/ports/identity-provider.port.js';
import type { Made } from './made.js';

/**
 * An identity provider that passes everything on to another one. Records all users and roles that it creates, so that
 * the check can remove them, and the user that it changed last.
 */
export class RecordedProvider extends IdentityProvider {
  constructor(
    private readonly provider: IdentityProvider,
    private readonly made: Made,
  ) {
    super();
  }

  override async createRole(role: NewRole, options: ProviderCallOptions): Promise<string> {
    return this.made.note('roles', await this.provider.createRole(role, options));
  }

  override async createUser(user: NewUser, options: ProviderCallOptions): Promise<string> {
    return this.made.note('users', await this.provider.createUser(user, options));
  }

  override async updateUser(userId: string, change: { readonly name: string }, options: ProviderCallOptions): Promise<void> {
    await this.provider.updateUser(userId, change, options);
    this.made.latestUserId = userId;
  }

  override assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void> {
    return this.provider.assignRole(userId, roleId, options);
  }

  override listRoles(options: ProviderCallOptions): AsyncIterable<readonly Role[]> {
    return this.provider.listRoles(options);
  }

  override listUsers(options: ProviderCallOptions): AsyncIterable<readonly User[]> {
    return this.provider.listUsers(options);
  }

  override checkHealth(options: ProviderCallOptions): Promise<void> {
    return this.provider.checkHealth(options);
  }
}
