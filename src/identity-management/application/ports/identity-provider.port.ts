import type { NewRole, Role } from '../../domain/role.js';
import type { NewUser, User } from '../../domain/user.js';

export interface ProviderCallOptions {
  /** Aborts when the caller waits no longer. What the call did by then is taken back where the port says so. */
  readonly signal: AbortSignal;
}

/**
 * The external identity provider: it alone keeps users and roles, and it may change them without us.
 *
 * An adapter throws the errors of `domain/errors.ts` and no others: besides those that a method names,
 * `ProviderUnavailable` (unreachable, throttling, silent; a repeat may help) and `ProviderError` (our credentials
 * refused, an answer that breaks the provider's contract), each with its cause. An id that the provider could not
 * have made is an unknown id and never reaches it. Any number of calls may be under way at once.
 */
export abstract class IdentityProvider {
  /**
   * Creates a role with its permissions, all or nothing.
   *
   * @returns the role's id.
   * @throws RoleAlreadyExists when the name is in use (compared as text), also for all but one of simultaneous calls.
   */
  abstract createRole(role: NewRole, options: ProviderCallOptions): Promise<string>;

  /**
   * Creates a user with their roles, all or nothing: where the roles can't be given no user is left behind.
   *
   * @returns the user's id, `<provider_prefix>|<opaque_id>`.
   * @throws UserAlreadyExists when the e-mail is in use, also for all but one of simultaneous calls.
   * @throws RoleNotFound when one of the roles isn't there.
   */
  abstract createUser(user: NewUser, options: ProviderCallOptions): Promise<string>;

  /**
   * Sets a user's display name. Idempotent; the last writer wins.
   *
   * @throws UserNotFound
   */
  abstract updateUser(userId: string, change: { readonly name: string }, options: ProviderCallOptions): Promise<void>;

  /**
   * Gives a user a role. Idempotent: assigning it again changes nothing and resolves.
   *
   * @throws UserNotFound
   * @throws RoleNotFound
   */
  abstract assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void>;

  /**
   * All roles, page by page and each once; pages may be of any length, also empty. What is created or deleted
   * meanwhile may be in it or not. Holds one page at a time; ends its work when the iterator is returned.
   */
  abstract listRoles(options: ProviderCallOptions): AsyncIterable<readonly Role[]>;

  /** All users, those that others made included; otherwise as `listRoles`. */
  abstract listUsers(options: ProviderCallOptions): AsyncIterable<readonly User[]>;

  /**
   * Resolves when the provider answers and accepts us; rejects with the reason otherwise.
   *
   * @throws ProviderMisconfigured when the reason is known, with a line for each thing that somebody must put right.
   */
  abstract checkHealth(options: ProviderCallOptions): Promise<void>;

  /** What is not as it should be though the operations work, by the latest `checkHealth`: a line for each, without a secret. */
  get warnings(): readonly string[] {
    return [];
  }
}
