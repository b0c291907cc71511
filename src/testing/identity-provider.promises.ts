import type { PortPromise } from './port-promise.js';

/**
 * The promises of the port `IdentityProvider` that `identityProviderContract` tests, and advice for adapters that break
 * them.
 */
export const PROMISES = {
  createRole: {
    sentence: 'Creates a role with its permissions, all or nothing.',
    advice: "Return the provider's own id of the role, and list the role with the same id and its name as given.",
  },
  roleExists: {
    sentence: 'RoleAlreadyExists when the name is in use (compared character by character).',
    advice: 'Throw RoleAlreadyExists before anything changes. If the provider folds case or normalizes, compare names yourself.',
  },
  oneRole: {
    sentence: 'Of simultaneous calls with one name, at most one succeeds.',
    advice: "Rely on the provider's own uniqueness, or on a transaction: a search before the creation isn't enough.",
  },
  permissions: {
    sentence: 'Creates a role with its permissions, all or nothing.',
    advice: 'Divide the permissions into several calls if the provider limits their number or length.',
  },
  names: {
    sentence: 'Names are kept character by character.',
    advice: 'Send names as they are, encoded once for JSON or a URL, and cut, trim or normalize nothing.',
  },
  userId: {
    sentence: "the user's id, `<provider_prefix>|<opaque_id>`.",
    advice: 'Put a prefix of letters, digits, dots, underscores and dashes and a | before the id of the provider, also in lists.',
  },
  userRoles: {
    sentence: "Creates a user with their roles, all or nothing. If the roles can't be assigned, no user remains:",
    advice: 'Assign each of roleIds, and no default role, before resolving.',
  },
  userExists: {
    sentence: 'UserAlreadyExists when the e-mail is in use:',
    advice: 'Throw UserAlreadyExists, and leave name and roles of the existing user.',
  },
  oneUser: {
    sentence: 'Of simultaneous calls with one e-mail, at most one succeeds.',
    advice: "Rely on the provider's own uniqueness, or on a transaction: a search before the creation isn't enough.",
  },
  allOrNothing: {
    sentence: "Creates a user with their roles, all or nothing. If the roles can't be assigned, no user remains:",
    advice: 'Look the roles up first, or remove the user again, and throw RoleNotFound.',
  },
  unknownIds: {
    sentence: "An id in a form that the provider never issues counts as unknown and isn't sent to the provider.",
    advice: 'Compare the whole id with the form of your ids, and throw RoleNotFound or UserNotFound for any other.',
  },
  userNotFound: {
    sentence: 'UserNotFound',
    advice: "Translate the provider's answer for an unknown user to UserNotFound.",
  },
  emails: {
    sentence: 'UserAlreadyExists when the e-mail is in use:',
    advice: 'Only e-mails are unique. Accept up to 254 characters, and users who share a name.',
  },
  update: {
    sentence: "Sets a user's display name. Idempotent; the last writer wins.",
    advice: 'Send only the name, so that e-mail and roles stay.',
  },
  assign: {
    sentence: 'Assigns a role to a user. Idempotent: assigning the role again changes nothing and resolves.',
    advice: "Add the role to those that the user has, and treat the provider's answer for an assigned role as success.",
  },
  lists: {
    sentence: 'Lists all roles that the service can assign, page by page, each role once.',
    advice: "Follow the provider's pages to the end, beyond its limits for one search, and leave out what was listed already.",
  },
  listReturn: {
    sentence: "Stops when the iterator's `return` is called.",
    advice: 'Write the list as an async generator, or end it in return().',
  },
  aborts: {
    sentence: 'throttling, failing or silent, or the caller has given up. A retry may help.',
    advice: 'Check options.signal before each call to the provider and pass it on. Throw ProviderUnavailable once it has aborted.',
  },
  atOnce: {
    sentence: 'Any number of calls may be in flight at once.',
    advice: 'Keep the position of a list in its iterator, not in the adapter.',
  },
  external: {
    sentence: 'The identity provider, which is the only store of users and roles.',
    advice: 'Keep nothing of a user or role in the memory of the adapter alone.',
  },
  healthy: {
    sentence: 'Resolves when the provider answers and accepts our credentials.',
    advice: 'Make one cheap call with the credentials of the service.',
  },
} as const satisfies Record<string, PortPromise>;
