import { Injectable } from '@nestjs/common';
import { assertUserName } from '../domain/user.js';
import { IdentityManagementLimits } from './identity-management.options.js';
import { IdentityProvider } from './ports/identity-provider.port.js';
import { callProvider } from './provider-deadline.js';

export interface UpdateUserCommand {
  readonly userId: string;
  readonly newName: string;
}

@Injectable()
export class UpdateUser {
  constructor(
    private readonly identityProvider: IdentityProvider,
    private readonly limits: IdentityManagementLimits,
  ) {}

  /**
   * Sets a user's display name.
   *
   * @throws InvalidIdentityValue, UserNotFound, ProviderUnavailable, ProviderError
   */
  async execute({ userId, newName }: UpdateUserCommand): Promise<void> {
    assertUserName(newName);
    await callProvider(this.limits, (options) => this.identityProvider.updateUser(userId, { name: newName }, options));
  }
}
