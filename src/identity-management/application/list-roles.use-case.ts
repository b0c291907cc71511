import { Injectable } from '@nestjs/common';
import type { Role } from '../domain/role.js';
import { ProviderDeadline } from './provider-deadline.js';

@Injectable()
export class ListRoles {
  constructor(private readonly deadline: ProviderDeadline) {}

  /** @throws ProviderUnavailable or ProviderError, at any page. */
  execute<Listed>(toListed: (role: Role) => Listed): AsyncGenerator<readonly Listed[], void, undefined> {
    return this.deadline.pages((provider, options) => provider.listRoles(options), toListed);
  }
}
