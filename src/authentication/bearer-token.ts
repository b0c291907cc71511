import type { IncomingMessage } from 'node:http';

const MAX_LENGTH = 16_384;
/** The value of an Authorization header (RFC 9110, section 11.4): a scheme in any letter case, blanks, one token. */
const BEARER = /^bearer[ \t]+(\S+)$/i;
/**
 * Canonical base64url (RFC 4648, sections 3.5 and 5): no padding, and the unused bits of the last character are zero.
 */
const BASE64URL = '(?:[\\w-]{4})*(?:[\\w-][AQgw]|[\\w-]{2}[AEIMQUYcgkosw048])?';
/** A JWS in compact form (RFC 7515, section 7.1). */
const COMPACT_JWS = new RegExp(`^${BASE64URL}\\.${BASE64URL}\\.${BASE64URL}$`);

/**
 * The bearer token of a request (RFC 6750, section 2.1): a signed JWT of at most 16,384 characters in its canonical
 * spelling. Null for anything else. Also null when the header is repeated, which Node's `headers` would hide.
 */
export function bearerToken({ rawHeaders }: IncomingMessage): string | null {
  const isOurs = (_: string, index: number) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'authorization';
  const values = rawHeaders.filter(isOurs);
  const token = values.length === 1 ? BEARER.exec(values[0] ?? '')?.[1] : undefined;
  return token !== undefined && token.length <= MAX_LENGTH && COMPACT_JWS.test(token) ? token : null;
}
