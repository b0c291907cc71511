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
   * Gives a user a role; that they have it already is no failure.
   *
   * @throws UserNotFound, RoleNotFound, ProviderUnavailable, ProviderError
   */
  async execute({ userId, roleId }: AssignRoleCommand): Promise<void> {
    await callProvider(this.limits, (options) => this.identityProvider.assignRole(userId, roleId, options));
  }
}
