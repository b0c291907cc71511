import { randomUUID } from 'node:crypto';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import { newRole, type Role } from '../identity-management/domain/role.js';
import type { NewUser, User } from '../identity-management/domain/user.js';

/** A text that no other user or role has in its name or e-mail: 32 hexadecimal digits. */
export const unique = (): string => randomUUID().replaceAll('-', '');

/** A user with an unused e-mail, the name Ada and no roles, except for the given members. */
export const someUser = (user: Partial<NewUser> = {}): NewUser => ({ email: `${unique()}@example.com`, name: 'Ada', roleIds: [], ...user });

/** The calls that many tests of a provider make. They reject with the errors of the provider. */
export interface ProviderCalls {
  /**
   * Creates a role with an unused name, and resolves to its id.
   *
   * @param permissions Default: only `read:users`.
   */
  readonly someRole: (permissions?: readonly string[]) => Promise<string>;
  /** All users that the provider lists. */
  readonly users: () => Promise<User[]>;
  /** All roles that the provider lists. */
  readonly roles: () => Promise<Role[]>;
}

/** @param providerOf returns the provider of the test that is running. Called for each call. */
export const providerCalls = (providerOf: () => IdentityProvider, options: ProviderCallOptions): ProviderCalls => ({
  someRole: (permissions = ['read:users']) => providerOf().createRole(newRole(`role ${unique()}`, permissions), options),
  users: () => allOf(providerOf().listUsers(options)),
  roles: () => allOf(providerOf().listRoles(options)),
});

/** Joins the pages of a list. */
export async function allOf<Item>(pages: AsyncIterable<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const page of pages) items.push(...page);
  return items;
}
