import type { AccessToken } from './access-token.js';

const TYPES: readonly unknown[] = ['jwt', 'at+jwt', 'application/at+jwt'];
const MAX_KID_LENGTH = 256;
/**
 * Claims that mark other tokens than access tokens: ID tokens (OpenID Connect Core, sections 3.1.3.6 and 3.3.2.11) and
 * logout tokens (Back-Channel Logout, section 2.4).
 */
const FOREIGN_CLAIMS = ['at_hash', 'c_hash', 'events'];

export type Claims = Readonly<Record<string, unknown>>;

/**
 * Checks that the header of a JWT may be that of an access token (RFC 7519, RFC 8725, RFC 9068). Returns its `kid`.
 *
 * @throws Error that names the broken rule.
 */
export function checkHeader({ crit, typ, kid }: Claims): string {
  if (crit !== undefined) throw new Error('There is a crit header, and no extension is known.');
  if (typ !== undefined && !TYPES.includes(typeof typ === 'string' ? typ.toLowerCase() : typ)) {
    throw new Error("The header's typ is not an access token's.");
  }
  if (typeof kid !== 'string' || kid.length > MAX_KID_LENGTH) throw new Error('There is no kid, or it is too long.');
  return kid;
}

/**
 * Checks the claims of an access token, except what passport-jwt checks: `aud`, and the times in `exp` and `nbf`.
 *
 * @param toleranceSeconds how far the issuer's clock may be ahead of this service's.
 * @throws Error that names the broken rule.
 */
export function checkClaims(claims: Claims, issuer: string, toleranceSeconds: number): void {
  const { iss, sub, exp, iat, typ, token_use: use } = claims;
  const now = Date.now() / 1000;
  if (iss !== issuer) throw new Error('The iss claim is not the expected issuer.');
  if (typeof sub !== 'string' || sub === '') throw new Error('The sub claim is missing or empty.');
  if (!Number.isFinite(exp)) throw new Error('The exp claim is missing or not a number.'); // passport-jwt checks whether the time in exp is past.
  if (iat !== undefined && !(typeof iat === 'number' && iat <= now + toleranceSeconds)) throw new Error('The iat claim is not a past time.');
  // Keycloak's access tokens have the typ Bearer, its other tokens another one, such as ID or Refresh.
  if (typ !== undefined && typ !== 'Bearer') throw new Error("The typ claim is not an access token's.");
  if (use !== undefined && use !== 'access') throw new Error('The token_use claim is not "access".');
  for (const name of FOREIGN_CLAIMS) {
    if (claims[name] !== undefined) throw new Error(`The ${name} claim belongs to another kind of token.`);
  }
}

/**
 * Checks the claims of a token whose signature isn't verified yet, including the audience and `exp`, but not `nbf`.
 *
 * @throws Error that names the broken rule.
 */
export function checkUnverified(
  claims: Claims,
  { issuer, audience, toleranceSeconds }: { readonly issuer: string; readonly audience: string; readonly toleranceSeconds: number },
): void {
  checkClaims(claims, issuer, toleranceSeconds);
  const { aud, exp } = claims;
  if (!(Array.isArray(aud) ? aud : [aud]).includes(audience)) throw new Error('The aud claim does not contain the audience.');
  if (Number(exp) + toleranceSeconds < Date.now() / 1000) throw new Error('The token has expired.');
}

/**
 * Reads the claims of a verified token. Permissions are in `permissions` (Auth0, embedded provider) and in
 * `resource_access[<audience>].roles` (Keycloak); customers, in `customer_id`. Values of another type are ignored.
 */
export function toAccessToken(claims: Claims, audience: string): AccessToken {
  const { sub, permissions, customer_id: customers, resource_access: access } = claims;
  const roles = access === undefined ? undefined : member(member(access, audience), 'roles');
  return {
    subject: String(sub),
    permissions: textsIn(permissions, roles),
    customerIds: textsIn(typeof customers === 'string' ? [customers] : customers),
  };
}

/** Reads an own member of an object, not an inherited one: `name` may be an audience such as `constructor`. */
const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Claims)[name] : undefined;

function textsIn(...values: readonly unknown[]): ReadonlySet<string> {
  const texts = new Set<string>();
  for (const list of values) {
    if (!Array.isArray(list)) continue;
    for (const item of list as unknown[]) if (typeof item === 'string') texts.add(item);
  }
  return texts;
}
