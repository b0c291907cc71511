import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { invalidBody, invalidQuery, ManagementError } from './management-error.js';
import { listAnswer, readPage } from './paging.js';
import { type RouteAnswer, type ApiCall, readBody, type Route, text } from './route.js';
import { withFields } from './shown-fields.js';
import type { Tenant } from './tenant.js';
import type { UserOrder } from './user-index.js';
import { ALL_USERS, parseUserQuery } from './user-query.js';
import { type UserRecord, userView } from './user-record.js';

const METADATA = z.record(z.string(), z.unknown()).optional();
const EMAIL = z.string().regex(/^[^\s@]+@[^\s@]+$/u, 'Object didn\'t pass validation for format email');
const PHONE = z.string().regex(/^\+[0-9]{1,15}$/).optional();

const NEW_USER = z.strictObject({
  connection: text(1, Infinity),
  email: EMAIL.optional(),
  password: text(1, Infinity).optional(),
  name: text(1, 300).optional(),
  given_name: text(1, 150).optional(),
  family_name: text(1, 150).optional(),
  nickname: text(1, 300).optional(),
  username: text(1, 128).optional(),
  picture: z.url().optional(),
  user_id: z.string().max(255).regex(/^\S*$/u).optional(),
  phone_number: PHONE,
  phone_verified: z.boolean().optional(),
  email_verified: z.boolean().optional(),
  verify_email: z.boolean().optional(),
  blocked: z.boolean().optional(),
  app_metadata: METADATA,
  user_metadata: METADATA,
});

const USER_CHANGE = z.looseObject({
  connection: text(1, Infinity).optional(),
  client_id: text(1, Infinity).optional(),
  email: EMAIL.nullish(),
  password: text(1, Infinity).nullish(),
  name: text(1, 300).nullish(),
  given_name: text(1, 150).nullish(),
  family_name: text(1, 150).nullish(),
  nickname: text(1, 300).nullish(),
  email_verified: z.boolean().optional(),
  verify_email: z.boolean().optional(),
  blocked: z.boolean().optional(),
  app_metadata: METADATA,
  user_metadata: METADATA,
});

/**
 * Members of a user that Auth0 copies from the user's connection at each login. Changing them is refused, except for
 * users of Auth0's own databases, whose ids begin with `auth0|`.
 */
const SYNCHRONISED = ['name', 'email', 'given_name', 'family_name', 'nickname', 'picture'];
const NOT_AS_SENT = new Set(['name', 'email', 'email_verified', 'verify_email', 'password', 'connection', 'client_id', 'user_id']);

/** The number of users on a page of a search by default, and at most if the request has no parameter `page`. */
const DEFAULT_USERS = 50;
const SEARCH_CAP = 1000;
const MAX_PASSWORD_BYTES = 72;
const MIN_PASSWORD_LENGTH = 8;

export const usersRoutes = (tenant: Tenant): Route[] => [
  { operation: 'GET /users', scopes: ['read:users'], answer: (call) => searchUsers(tenant, call) },
  { operation: 'POST /users', scopes: ['create:users'], answer: (call) => createUser(tenant, call) },
  {
    operation: 'GET /users/{id}',
    scopes: ['read:users'],
    answer: ({ id, query }) => ({ status: 200, body: withFields(userView(existingUser(tenant, id)), query) }),
  },
  { operation: 'PATCH /users/{id}', scopes: ['update:users'], answer: (call) => updateUser(tenant, call) },
  {
    operation: 'DELETE /users/{id}',
    scopes: ['delete:users'],
    answer: ({ id }) => {
      tenant.removeUser(id);
      return { status: 204 };
    },
  },
  {
    operation: 'GET /users-by-email',
    scopes: ['read:users'],
    answer: ({ query }) => {
      const email = query.get('email');
      if (email === null) throw invalidQuery('Missing required property: email');
      return { status: 200, body: tenant.users.withEmail(email).map((user) => withFields(userView(user), query)) };
    },
  },
  {
    operation: 'GET /users/{id}/permissions',
    scopes: ['read:users'],
    answer: ({ id, query }) => {
      existingUser(tenant, id);
      const { largestPage } = tenant.settings;
      const page = readPage(query, { defaultSize: largestPage / 2, largestSize: largestPage, smallestSize: 1 });
      const permissions = [...tenant.resourceServers.values()].flatMap(({ identifier, settings }) =>
        tenant.permissionsOf(id, identifier).map((permission) => ({
          permission_name: permission,
          resource_server_identifier: identifier,
          resource_server_name: settings.name,
        })),
      );
      return listAnswer('permissions', permissions, page);
    },
  },
];

/**
 * Returns the user with this id.
 *
 * @throws ManagementError 404 `inexistent_user` when the tenant has no such user.
 */
export function existingUser(tenant: Tenant, id: string): UserRecord {
  const user = tenant.users.get(id);
  if (!user) throw new ManagementError(404, 'The user does not exist.', 'inexistent_user');
  return user;
}

function searchUsers({ users, settings, now }: Tenant, { query }: ApiCall): RouteAnswer {
  const rules = { defaultSize: DEFAULT_USERS, largestSize: query.has('page') ? 100 : DEFAULT_USERS, smallestSize: 0, cap: SEARCH_CAP };
  const page = readPage(query, rules);
  const q = query.get('q');
  const wanted = q === null || q === '' ? ALL_USERS : parseUserQuery(q, settings.searchGranularity);
  users.index.catchUp(now());
  const { users: found, total } = users.index.find(wanted, page, readOrder(query.get('sort')));
  const shown = found.map((user) => withFields(userView(user), query));
  if (!page.includeTotals) return { status: 200, body: shown };
  return { status: 200, body: { start: page.start, limit: page.limit, length: shown.length, total, users: shown } };
}

function readOrder(sort: string | null): UserOrder | undefined {
  if (sort === null) return undefined;
  const [, field, direction] = /^([a-zA-Z0-9_.]+):(1|-1)$/.exec(sort) ?? [];
  if (field === undefined) throw invalidQuery('String does not match pattern on property sort');
  return { field, isDescending: direction === '-1' };
}

function createUser(tenant: Tenant, { body }: ApiCall): RouteAnswer {
  const sent = readBody(NEW_USER, body);
  const { connection, password, email: address, name, user_id: ownId, email_verified: isVerified, verify_email: isAsked } = sent;
  if (!tenant.connections.some(({ name: known }) => known === connection)) throw new ManagementError(400, 'The connection does not exist.', 'inexistent_connection');
  if (address === undefined) throw invalidBody('Missing required property: email');
  if (password === undefined) throw invalidBody('Missing required property: password');
  checkPassword(password);
  if (tenant.settings.hasSeveralCustomDomains) {
    throw new ManagementError(409, 'The tenant has multiple verified custom domains.', 'custom_domain_conflict');
  }
  const email = address.toLowerCase();
  const userId = `auth0|${ownId ?? randomBytes(12).toString('hex')}`;
  const isTaken = tenant.users.withEmail(email).some((user) => user.connection === connection);
  if (isTaken || tenant.users.get(userId)) throw new ManagementError(409, 'The user already exists.', 'auth0_idp_error');
  const createdAt = tenant.now();
  const emailVerified = isVerified ?? false;
  const user = { userId, email, name: name ?? email, connection, createdAt, updatedAt: createdAt, emailVerified, others: othersOf(sent) };
  tenant.put(user);
  if (isAsked ?? !emailVerified) tenant.send('verification', user);
  return { status: 201, body: userView(user) };
}

function updateUser(tenant: Tenant, { id, body }: ApiCall): RouteAnswer {
  const change = readBody(USER_CHANGE, body);
  const { name, email, email_verified: isVerified, verify_email: isAsked, password } = change;
  const user = existingUser(tenant, id);
  const refused = SYNCHRONISED.filter((field) => Object.hasOwn(change, field));
  if (!user.userId.startsWith('auth0|') && refused.length > 0) {
    throw new ManagementError(
      400,
      `The following user attributes cannot be updated: ${refused.join(', ')}. The user must either be a database connection (using the Auth0 store), a passwordless connection (email or sms) or has disabled 'Sync user profile attributes at each login'.`,
      'operation_not_supported',
    );
  }
  if (password != null) checkPassword(password);
  const address = email?.toLowerCase() ?? user.email;
  if (tenant.users.withEmail(address).some((other) => other.userId !== id && other.connection === user.connection)) {
    throw new ManagementError(400, 'The specified new email already exists', 'auth0_idp_error');
  }
  const changed: UserRecord = {
    ...user,
    email: address,
    name: name === null ? address : (name ?? user.name),
    emailVerified: isVerified ?? user.emailVerified,
    updatedAt: tenant.now(),
    others: othersOf({ ...user.others, ...change, ...mergedMetadata(user, change) }),
  };
  tenant.put(changed);
  if (isAsked) tenant.send('verification', changed);
  return { status: 200, body: userView(changed) };
}

function mergedMetadata({ others }: UserRecord, change: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const changed = ['app_metadata', 'user_metadata'].filter((name) => Object.hasOwn(change, name));
  return Object.fromEntries(changed.map((name) => [name, Object.assign({}, others?.[name], change[name])]));
}

/** Selects the members that a user keeps as sent. Null removes a member from a user, so null members are left out. */
function othersOf(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([name, value]) => value !== null && !NOT_AS_SENT.has(name)));
}

/** Enforces Auth0's password policy "good", and a maximum of 72 bytes. The error doesn't say which rule was broken. */
function checkPassword(password: string): void {
  const classes = [/[a-z]/, /[A-Z]/, /\d/, /[^a-zA-Z\d]/].filter((pattern) => pattern.test(password)).length;
  const isTooLong = Buffer.byteLength(password) > MAX_PASSWORD_BYTES;
  if (password.length < MIN_PASSWORD_LENGTH || classes < 3 || isTooLong) {
    throw new ManagementError(400, 'PasswordStrengthError: Password is too weak');
  }
}
