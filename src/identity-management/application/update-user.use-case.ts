import { Injectable } from '@nestjs/common';
import { assertUserName } from '../domain/user.js';
import { ProviderDeadline } from './provider-deadline.js';

export interface UpdateUserCommand {
  readonly userId: string;
  readonly newName: string;
}

@Injectable()
export class UpdateUser {
  constructor(private readonly deadline: ProviderDeadline) {}

  /** @throws InvalidIdentityValue, UserNotFound, ProviderUnavailable, ProviderError */
  async execute({ userId, newName }: UpdateUserCommand): Promise<void> {
    assertUserName(newName);
    await this.deadline.call((provider, options) => provider.updateUser(userId, { name: newName }, options));
  }
}
