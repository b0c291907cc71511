import type { IncomingMessage } from 'node:http';

const MAX_LENGTH = 16_384;
/** More than the scheme and the blanks behind it need; a longer value isn't looked at. */
const SCHEME_LENGTH = 1_024;
/** RFC 9110, section 11.4: a scheme in any letter case, blanks, one token68. */
const BEARER = /^bearer[ \t]+([A-Za-z0-9._~+/-]+=*)$/i;

/**
 * The bearer token of a request (RFC 6750, section 2.1), at most 16,384 characters long; null when there is none, or the
 * header stands there twice, which Node would hide in `headers`.
 */
export function bearerToken({ rawHeaders }: IncomingMessage): string | null {
  const isOurs = (_: string, index: number) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'authorization';
  const values = rawHeaders.filter(isOurs);
  const [value = ''] = values;
  if (values.length !== 1 || value.length > SCHEME_LENGTH + MAX_LENGTH) return null;
  const token = BEARER.exec(value)?.[1];
  return token !== undefined && token.length <= MAX_LENGTH ? token : null;
}
