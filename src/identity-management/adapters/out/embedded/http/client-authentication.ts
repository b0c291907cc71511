import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ADMIN_CLIENT_ID } from '../token-issuer.js';
import { OAuthError } from './oauth-error.js';
import { formDecode } from './token-request.js';

/** Parameters with credentials (RFC 6749, section 2.3.1; RFC 7521, section 4.2), which this issuer doesn't accept. */
const BODY_CREDENTIALS = ['client_secret', 'client_assertion'];
const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2})$/i;

/** Authenticates the client `admin` by HTTP Basic only (`client_secret_basic`). */
export class ClientAuthentication {
  private digests: readonly Buffer[] = [];

  /** @param current the present secret of `admin`, or two separated by a blank while one is replaced. */
  constructor(private readonly current: () => Promise<string>) {}

  /** Looks up the present secret. Must be called before `authenticate`, which doesn't wait for a file. */
  async renew(): Promise<void> {
    this.digests = (await this.current()).split(' ').map(digest);
  }

  /**
   * @throws OAuthError `invalid_client` when the id or the secret is wrong, or not in the Authorization header;
   * `invalid_request` when the client presents credentials more than once.
   */
  authenticate(request: IncomingMessage, parameters: ReadonlyMap<string, string>): void {
    const headers = request.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'authorization');
    const inBody = BODY_CREDENTIALS.filter((name) => parameters.has(name));
    if (headers.length + inBody.length > 1) {
      throw new OAuthError('invalid_request', 'The client must authenticate in one way only.');
    }
    const { id, secret } = basicCredentials(request.headers.authorization ?? '');
    // The id and each secret are always compared: otherwise an unknown client would be answered sooner than a wrong secret.
    const known = timingSafeEqual(digest(id), digest(ADMIN_CLIENT_ID));
    const right = this.digests.filter((expected) => timingSafeEqual(digest(secret), expected));
    if (!known || right.length === 0) throw new OAuthError('invalid_client', 'The client is unknown or its secret is wrong.');
  }
}

/** The id and secret in an Authorization header (RFC 6749, section 2.3.1); empty if the header has another form. */
function basicCredentials(authorization: string): { readonly id: string; readonly secret: string } {
  const pair = Buffer.from(BASIC.exec(authorization)?.[1] ?? '', 'base64').toString('latin1');
  const colon = pair.indexOf(':');
  try {
    if (colon > 0) return { id: formDecode(pair.slice(0, colon)), secret: formDecode(pair.slice(colon + 1)) };
  } catch {
    // A malformed percent escape counts as wrong credentials.
  }
  return { id: '', secret: '' };
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
