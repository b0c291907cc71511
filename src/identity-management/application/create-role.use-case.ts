import { Injectable } from '@nestjs/common';
import { newRole } from '../domain/role.js';
import { IdentityManagementLimits } from './identity-management.options.js';
import { IdentityProvider } from './ports/identity-provider.port.js';
import { callProvider } from './provider-deadline.js';

export interface CreateRoleCommand {
  readonly name: string;
  /** A repeated permission counts once. */
  readonly permissions: readonly string[];
}

@Injectable()
export class CreateRole {
  constructor(
    private readonly identityProvider: IdentityProvider,
    private readonly limits: IdentityManagementLimits,
  ) {}

  /**
   * Creates a role with its permissions.
   *
   * @returns the role's id.
   * @throws InvalidIdentityValue, RoleAlreadyExists, ProviderUnavailable, ProviderError
   */
  async execute({ name, permissions }: CreateRoleCommand): Promise<string> {
    const role = newRole(name, permissions);
    return callProvider(this.limits, (options) => this.identityProvider.createRole(role, options));
  }
}
