import type { NewRole, Role } from '../../domain/role.js';
import type { NewUser, User } from '../../domain/user.js';

export interface ProviderCallOptions {
  /** Aborts when the caller gives up. A method that promises "all or nothing" then undoes the changes of the call. */
  readonly signal: AbortSignal;
}

/**
 * The identity provider, which is the only store of users and roles. Other programs and people may change users and
 * roles at the provider too.
 *
 * An adapter throws only the errors of `domain/errors.ts`. Besides the errors named by a method, these are
 * `InvalidIdentityValue` (the provider doesn't accept a value), `ProviderUnavailable` (the provider is unreachable,
 * throttling, failing or silent, or the caller has given up; a retry may help) and `ProviderError` (the provider
 * refuses our credentials, or an answer breaks its contract). An id in a form that the provider never issues counts as
 * unknown and isn't sent to the provider. Names are kept character by character. Any number of calls may be in flight
 * at once.
 */
export abstract class IdentityProvider {
  /**
   * Creates a role with its permissions, all or nothing.
   *
   * @returns the role's id.
   * @throws RoleAlreadyExists when the name is in use (compared character by character). Of simultaneous calls with one
   * name, at most one succeeds.
   */
  abstract createRole(role: NewRole, options: ProviderCallOptions): Promise<string>;

  /**
   * Creates a user with their roles, all or nothing. If the roles can't be assigned, no user remains.
   *
   * @returns the user's id, `<provider_prefix>|<opaque_id>`.
   * @throws UserAlreadyExists when the e-mail is in use. Of simultaneous calls with one e-mail, at most one succeeds.
   * @throws RoleNotFound when one of the roles doesn't exist.
   */
  abstract createUser(user: NewUser, options: ProviderCallOptions): Promise<string>;

  /**
   * Sets a user's display name. Idempotent; the last writer wins.
   *
   * @throws UserNotFound
   */
  abstract updateUser(userId: string, change: { readonly name: string }, options: ProviderCallOptions): Promise<void>;

  /**
   * Assigns a role to a user. Idempotent: assigning the role again changes nothing and resolves.
   *
   * @throws UserNotFound
   * @throws RoleNotFound
   */
  abstract assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void>;

  /**
   * Lists all roles page by page, each role once. A page may have any length, including zero. A role that is created or
   * deleted during the listing may or may not be listed. Holds one page at a time in memory. Stops when the iterator's
   * `return` is called.
   */
  abstract listRoles(options: ProviderCallOptions): AsyncIterable<readonly Role[]>;

  /**
   * Lists all users page by page, each user once, including users that the service didn't create. What `listRoles` says
   * of the length of pages, of changes during the listing, of memory and of `return` applies here too.
   */
  abstract listUsers(options: ProviderCallOptions): AsyncIterable<readonly User[]>;

  /**
   * Resolves when the provider answers and accepts our credentials. Otherwise rejects with the reason.
   *
   * @throws ProviderMisconfigured when the reason is the provider's configuration, with one line for each thing to fix.
   */
  abstract checkHealth(options: ProviderCallOptions): Promise<void>;

  /**
   * Defects that don't make operations fail, found by the latest health check that had a result: one line each, without
   * secrets.
   */
  get warnings(): readonly string[] {
    return [];
  }
}
