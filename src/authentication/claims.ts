import type { AccessToken } from './access-token.js';

const TYPES: readonly unknown[] = ['jwt', 'at+jwt', 'application/at+jwt'];
const MAX_KID_LENGTH = 256;
/**
 * Claims that show that a token isn't an access token: claims of ID tokens (OpenID Connect Core, sections 3.1.3.6 and
 * 3.3.2.11) and of logout tokens (Back-Channel Logout, section 2.4).
 */
const FOREIGN_CLAIMS = ['at_hash', 'c_hash', 'events'];

export type Claims = Readonly<Record<string, unknown>>;

// `checkHeader` and `checkClaims` check what passport-jwt doesn't: mostly requirements of RFC 7519, RFC 8725 and RFC
// 9068 for access tokens.

/**
 * Checks that the header of a JWT may be that of an access token.
 *
 * @returns the header's `kid`.
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
 * @param toleranceSeconds how far the issuer's clock may be ahead of this service's clock.
 * @throws Error that names the broken rule.
 */
export function checkClaims(claims: Claims, issuer: string, toleranceSeconds: number): void {
  const { iss, sub, exp, iat, typ, token_use: use } = claims;
  const now = Date.now() / 1000;
  if (iss !== issuer) throw new Error('The iss claim is not the expected issuer.');
  if (typeof sub !== 'string' || sub === '') throw new Error('The sub claim is missing or empty.');
  if (!Number.isFinite(exp)) throw new Error('The exp claim is missing or not a number.'); // passport-jwt checks whether the time in exp is past.
  if (iat !== undefined && !(typeof iat === 'number' && iat <= now + toleranceSeconds)) throw new Error('The iat claim is not a past time.');
  // Keycloak sets the typ claim to Bearer in access tokens, and to other values, such as ID or Refresh, in other
  // tokens.
  if (typ !== undefined && typ !== 'Bearer') throw new Error("The typ claim is not an access token's.");
  if (use !== undefined && use !== 'access') throw new Error('The token_use claim is not "access".');
  for (const name of FOREIGN_CLAIMS) {
    if (claims[name] !== undefined) throw new Error(`The ${name} claim belongs to another kind of token.`);
  }
}

/**
 * Checks the claims of an access token whose signature isn't verified yet, including the audience and the time of
 * expiry, but not `nbf`.
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
 * Reads the claims of a verified token, in the same way for every provider. The permissions are all those in the claim
 * `permissions`, which Auth0 and the embedded provider set, and in `resource_access[<audience>].roles`, which Keycloak
 * sets. The customers are in the claim `customer_id`, a string or an array. Claims of another type are ignored, and so
 * are an array's elements that aren't strings.
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

/**
 * Reads an object's own member. Undefined if `value` isn't an object or has no such member. Inherited members don't
 * count, because `name` may be an audience, and an audience may be called `constructor`.
 */
const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Claims)[name] : undefined;

/**
 * The strings in those values that are arrays, without duplicates. Values that aren't arrays, and elements that aren't
 * strings, are ignored.
 */
function textsIn(...values: readonly unknown[]): ReadonlySet<string> {
  const texts = new Set<string>();
  for (const list of values) {
    if (!Array.isArray(list)) continue;
    for (const item of list as unknown[]) if (typeof item === 'string') texts.add(item);
  }
  return texts;
}
