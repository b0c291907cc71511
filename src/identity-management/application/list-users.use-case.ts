import { Injectable } from '@nestjs/common';
import type { User } from '../domain/user.js';
import { IdentityManagementLimits } from './identity-management.options.js';
import { IdentityProvider } from './ports/identity-provider.port.js';
import { providerPages } from './provider-deadline.js';

@Injectable()
export class ListUsers {
  constructor(
    private readonly identityProvider: IdentityProvider,
    private readonly limits: IdentityManagementLimits,
  ) {}

  /**
   * Lists all users page by page. Holds one page at a time.
   *
   * @throws ProviderUnavailable, ProviderError, for any page.
   */
  execute(): AsyncGenerator<readonly User[], void, undefined> {
    return providerPages(this.limits, (options) => this.identityProvider.listUsers(options));
  }
}
