import type { NewRole, Role } from '../../domain/role.js';
import type { NewUser, User } from '../../domain/user.js';

export interface ProviderCallOptions {
  /**
   * Aborts when the caller no longer waits. A method that promises "all or nothing" then undoes what the call has
   * created, unless the call has resolved.
   */
  readonly signal: AbortSignal;
}

/**
 * The identity provider, which is the only store of users and roles. Other programs and people may change users and
 * roles at the provider too.
 *
 * An adapter throws only the errors of `domain/errors.ts`: those named by a method, and these:
 *
 * - `InvalidIdentityValue`: the provider doesn't accept a value.
 * - `ProviderUnavailable`: the provider is unreachable, throttling, failing or silent, or the caller has given up. A
 *   retry may help.
 * - `ProviderError`: any other failure. For example, the provider refuses our credentials, or an answer breaks its
 *   contract.
 *
 * An id in a form that the provider never issues counts as unknown and isn't sent to the provider. Names are kept
 * character by character. Any number of calls may be in flight at once.
 */
export abstract class IdentityProvider {
  /**
   * Creates a role with its permissions, all or nothing. After most failures, the adapter removes a role that it has
   * created, if necessary in the background, and logs a role that it can't remove. Permissions that the provider didn't
   * know before may stay.
   *
   * @returns the role's id.
   * @throws RoleAlreadyExists when the name is in use (compared character by character). Of simultaneous calls with one
   * name, at most one succeeds.
   */
  abstract createRole(role: NewRole, options: ProviderCallOptions): Promise<string>;

  /**
   * Creates a user with their roles, all or nothing. If the roles can't be assigned, no user remains: the adapter
   * removes the user, if necessary in the background, and logs a user that it can't remove.
   *
   * @returns the user's id, `<provider_prefix>|<opaque_id>`.
   * @throws UserAlreadyExists when the e-mail is in use: in Keycloak also as a user name; in Auth0, only by users of
   * the configured connection. Of simultaneous calls with one e-mail, at most one succeeds.
   * @throws RoleNotFound when `listRoles` wouldn't list one of the roles.
   */
  abstract createUser(user: NewUser, options: ProviderCallOptions): Promise<string>;

  /**
   * Sets a user's display name. Idempotent; the last writer wins.
   *
   * @throws UserNotFound when no user has this id.
   */
  abstract updateUser(userId: string, change: { readonly name: string }, options: ProviderCallOptions): Promise<void>;

  /**
   * Assigns a role to a user. Idempotent: assigning the role again changes nothing and resolves.
   *
   * @throws UserNotFound when no user has this id.
   * @throws RoleNotFound when `listRoles` wouldn't list the role.
   */
  abstract assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void>;

  /**
   * Lists all roles that the service can assign, page by page, each role once. A page may have any length, including
   * zero. A role that is created or deleted during the listing may or may not be listed; Auth0 may then leave out
   * another one, too. May hold all roles in memory. Stops when the iterator's `return` is called.
   */
  abstract listRoles(options: ProviderCallOptions): AsyncIterable<readonly Role[]>;

  /**
   * Lists all users page by page, each user once, including users that the service didn't create. A page may have any
   * length, including zero. A user that is created or deleted during the listing may or may not be listed. In Auth0,
   * recent changes that others made may be missing. May hold the ids of all users in memory. Stops when the iterator's
   * `return` is called.
   */
  abstract listUsers(options: ProviderCallOptions): AsyncIterable<readonly User[]>;

  /**
   * Resolves when the provider answers and accepts our credentials. Otherwise rejects with the reason. Parts of the
   * result may be 30 seconds old.
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
