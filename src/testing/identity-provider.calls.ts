import { randomUUID } from 'node:crypto';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import { newRole, type Role } from '../identity-management/domain/role.js';
import type { NewUser, User } from '../identity-management/domain/user.js';

/** A random text that isn't part of the name or e-mail of any other user or role: 32 hexadecimal digits. */
export const unique = (): string => randomUUID().replaceAll('-', '');

/** A new user with an unused e-mail, the name Ada and no roles, except for the members that are given. */
export const someUser = (user: Partial<NewUser> = {}): NewUser => ({ email: `${unique()}@example.com`, name: 'Ada', roleIds: [], ...user });

/** Calls of the provider under test that many tests make. They reject with the errors of the provider. */
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

/** @param providerOf returns the identity provider of the test that is running. It is called again for each call. */
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
