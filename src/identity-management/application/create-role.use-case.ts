import { Injectable } from '@nestjs/common';
import { newRole } from '../domain/role.js';
import { ProviderDeadline } from './provider-deadline.js';

export interface CreateRoleCommand {
  readonly name: string;
  readonly permissions: readonly string[];
}

@Injectable()
export class CreateRole {
  constructor(private readonly deadline: ProviderDeadline) {}

  /**
   * Returns the role's id.
   *
   * @throws InvalidIdentityValue, RoleAlreadyExists, ProviderUnavailable, ProviderError
   */
  async execute({ name, permissions }: CreateRoleCommand): Promise<string> {
    const role = newRole(name, permissions);
    return this.deadline.call((provider, options) => provider.createRole(role, options));
  }
}
