import { Injectable } from '@nestjs/common';
import { newUser } from '../domain/user.js';
import { ProviderDeadline } from './provider-deadline.js';

export interface CreateUserCommand {
  /** An e-mail address in valid form, in any letter case. */
  readonly email: string;
  /** The display name (default: the e-mail). */
  readonly name?: string | undefined;
  readonly roleIds: readonly string[];
}

@Injectable()
export class CreateUser {
  constructor(private readonly deadline: ProviderDeadline) {}

  /**
   * Creates a user with their roles, all or nothing. Returns the user's id.
   *
   * @throws InvalidIdentityValue, UserAlreadyExists, RoleNotFound, ProviderUnavailable, ProviderError
   */
  async execute({ email, name, roleIds }: CreateUserCommand): Promise<string> {
    const user = newUser(email, name, roleIds);
    return this.deadline.call((provider, options) => provider.createUser(user, options));
  }
}
