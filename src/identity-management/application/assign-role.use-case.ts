import { Injectable } from '@nestjs/common';
import { ProviderDeadline } from './provider-deadline.js';

export interface AssignRoleCommand {
  readonly userId: string;
  readonly roleId: string;
}

@Injectable()
export class AssignRole {
  constructor(private readonly deadline: ProviderDeadline) {}

  /** @throws UserNotFound, RoleNotFound, InvalidIdentityValue, ProviderUnavailable, ProviderError */
  async execute({ userId, roleId }: AssignRoleCommand): Promise<void> {
    await this.deadline.call((provider, options) => provider.assignRole(userId, roleId, options));
  }
}
