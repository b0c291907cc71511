import type { AccessToken } from './access-token.js';
import type { Claims } from './token-rules.js';

/**
 * Reads the claims of a verified token. Permissions come from `permissions` (Auth0, the embedded provider) and from
 * `resource_access[<audience>].roles` (Keycloak). Customers come from `customer_id`, a string or an array. Values of
 * another type are ignored.
 */
export function toAccessToken(claims: Claims, audience: string): AccessToken {
  const { sub, permissions, customer_id: customers } = claims;
  const roles = member(member(member(claims, 'resource_access'), audience), 'roles');
  return {
    subject: String(sub),
    permissions: new Set([...strings(permissions), ...strings(roles)]),
    customerIds: new Set(strings(typeof customers === 'string' ? [customers] : customers)),
  };
}

/** Reads own members only, because an audience may be called `constructor`. */
const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Claims)[name] : undefined;

const strings = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
