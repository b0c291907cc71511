import { randomUUID } from 'node:crypto';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import { newRole, type Role } from '../identity-management/domain/role.js';
import type { NewUser, User } from '../identity-management/domain/user.js';

/** Returns a random text that no other user or role has in the name or e-mail. */
export const unique = (): string => randomUUID().replaceAll('-', '');

/** Returns a user to create, by default with an unused e-mail. */
export const someUser = (user: Partial<NewUser> = {}): NewUser => ({ email: `${unique()}@example.com`, name: 'Ada', roleIds: [], ...user });

export interface ProviderCalls {
  readonly someRole: (permissions?: readonly string[]) => Promise<string>;
  readonly users: () => Promise<User[]>;
  readonly roles: () => Promise<Role[]>;
}

export const providerCalls = (providerOf: () => IdentityProvider, options: ProviderCallOptions): ProviderCalls => ({
  someRole: (permissions = ['read:users']) => providerOf().createRole(newRole(`role ${unique()}`, permissions), options),
  users: () => allOf(providerOf().listUsers(options)),
  roles: () => allOf(providerOf().listRoles(options)),
});

/** Collects the items of all pages of a list, in order. */
export async function allOf<Item>(pages: AsyncIterable<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const page of pages) items.push(...page);
  return items;
}
