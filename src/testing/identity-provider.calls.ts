import { randomUUID } from 'node:crypto';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import { newRole, type Role } from '../identity-management/domain/role.js';
import type { NewUser, User } from '../identity-management/domain/user.js';

/** A random text of 32 hexadecimal digits. No other user or role has it in the name or e-mail. */
export const unique = (): string => randomUUID().replaceAll('-', '');

/** A user to create: with an unused e-mail, the name Ada and no roles, unless `user` has other values. */
export const someUser = (user: Partial<NewUser> = {}): NewUser => ({ email: `${unique()}@example.com`, name: 'Ada', roleIds: [], ...user });

/** Calls of the identity provider under test that many tests make. A call rejects with the provider's error. */
export interface ProviderCalls {
  /**
   * Creates a role with an unused name, and resolves to its id.
   *
   * @param permissions the permissions of the role. Default: only `read:users`.
   */
  readonly someRole: (permissions?: readonly string[]) => Promise<string>;
  /** Resolves to all users that the provider lists. */
  readonly users: () => Promise<User[]>;
  /** Resolves to all roles that the provider lists. */
  readonly roles: () => Promise<Role[]>;
}

/** @param providerOf returns the identity provider of the current test. Called again for each call of the provider. */
export const providerCalls = (providerOf: () => IdentityProvider, options: ProviderCallOptions): ProviderCalls => ({
  someRole: (permissions = ['read:users']) => providerOf().createRole(newRole(`role ${unique()}`, permissions), options),
  users: () => allOf(providerOf().listUsers(options)),
  roles: () => allOf(providerOf().listRoles(options)),
});

/** Resolves to the items of all pages of a list, in order. */
export async function allOf<Item>(pages: AsyncIterable<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const page of pages) items.push(...page);
  return items;
}
