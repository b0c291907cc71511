import { Injectable } from '@nestjs/common';
import { ProviderDeadline } from './provider-deadline.js';

export interface AssignRoleCommand {
  readonly userId: string;
  readonly roleId: string;
}

@Injectable()
export class AssignRole {
  constructor(private readonly deadline: ProviderDeadline) {}

  /**
   * Assigns a role to a user. Succeeds if the user already has the role.
   *
   * @param tokenCheckMs as for `ProviderDeadline.call`.
   * @throws UserNotFound, RoleNotFound, InvalidIdentityValue, ProviderUnavailable, ProviderError
   */
  async execute({ userId, roleId }: AssignRoleCommand, tokenCheckMs = 0): Promise<void> {
    await this.deadline.call((provider, options) => provider.assignRole(userId, roleId, options), tokenCheckMs);
  }
}
