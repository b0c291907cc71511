import { Injectable } from '@nestjs/common';
import type { User } from '../domain/user.js';
import { ProviderDeadline } from './provider-deadline.js';

@Injectable()
export class ListUsers {
  constructor(private readonly deadline: ProviderDeadline) {}

  /** @throws ProviderUnavailable or ProviderError, at any page. */
  execute<Listed>(toListed: (user: User) => Listed): AsyncGenerator<readonly Listed[], void, undefined> {
    return this.deadline.pages((provider, options) => provider.listUsers(options), toListed);
  }
}
