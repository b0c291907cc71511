import { Injectable } from '@nestjs/common';
import type { Role } from '../domain/role.js';
import { IdentityManagementLimits } from './identity-management.options.js';
import { IdentityProvider } from './ports/identity-provider.port.js';
import { providerPages } from './provider-deadline.js';

@Injectable()
export class ListRoles {
  constructor(
    private readonly identityProvider: IdentityProvider,
    private readonly limits: IdentityManagementLimits,
  ) {}

  /**
   * Lists all roles page by page. Holds one page at a time.
   *
   * @throws ProviderUnavailable, ProviderError, for any page.
   */
  execute(): AsyncGenerator<readonly Role[], void, undefined> {
    return providerPages(this.limits, (options) => this.identityProvider.listRoles(options));
  }
}
