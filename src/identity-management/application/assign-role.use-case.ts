import { Injectable } from '@nestjs/common';
import { IdentityManagementLimits } from './identity-management.options.js';
import { IdentityProvider } from './ports/identity-provider.port.js';
import { callProvider } from './provider-deadline.js';

export interface AssignRoleCommand {
  readonly userId: string;
  readonly roleId: string;
}

@Injectable()
export class AssignRole {
  constructor(
    private readonly identityProvider: IdentityProvider,
    private readonly limits: IdentityManagementLimits,
  ) {}

  /**
   * Assigns a role to a user. Succeeds if the user already has the role.
   *
   * @throws UserNotFound, RoleNotFound, ProviderUnavailable, ProviderError
   */
  async execute({ userId, roleId }: AssignRoleCommand): Promise<void> {
    await callProvider(this.limits, (options) => this.identityProvider.assignRole(userId, roleId, options));
  }
}
