import type { IncomingMessage } from 'node:http';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import passport from 'passport';
import { Strategy, type VerifiedCallback } from 'passport-jwt';
import { ServiceError } from '../common/service-error.js';
import { headerValues } from '../http/request-head.js';
import { type AccessToken, AccessTokenVerifier } from './access-token.js';
import type { AuthenticationOptions } from './authentication.options.js';
import { checkClaims, checkHeader, checkUnverified, type Claims, toAccessToken } from './claims.js';
import { KeySet } from './key-set.js';
import { ALGORITHMS } from './verification-key.js';

const MAX_TOKEN_LENGTH = 16_384;
const BEARER = /^bearer[ \t]+(\S+)$/i;
/** Canonical base64url (RFC 4648, sections 3.5 and 5): no padding, and the last character's unused bits are zero. */
const BASE64URL = '(?:[\\w-]{4})*(?:[\\w-][AQgw]|[\\w-]{2}[AEIMQUYcgkosw048])?';
/** A JWS in compact form (RFC 7515, section 7.1). */
const COMPACT_JWS = new RegExp(`^${BASE64URL}\\.${BASE64URL}\\.${BASE64URL}$`);

/**
 * The bearer token of a request (RFC 6750, section 2.1). Null if it is missing, isn't in the form of a JWS, or has over
 * 16,384 characters. Also null if the `Authorization` header is repeated, which Node's `headers` would hide.
 */
export function bearerToken(request: IncomingMessage): string | null {
  const values = headerValues(request, 'authorization');
  const token = values.length === 1 ? BEARER.exec(values[0] ?? '')?.[1] : undefined;
  return token !== undefined && token.length <= MAX_TOKEN_LENGTH && COMPACT_JWS.test(token) ? token : null;
}

class AccessTokenStrategy extends Strategy {
  constructor({ issuer, audience, clockToleranceSeconds: tolerance = 5 }: AuthenticationOptions, keys: KeySet) {
    if (!(tolerance >= 0 && tolerance <= 10)) throw new RangeError('The clock tolerance is 0 to 10 seconds.');
    // `jsonWebTokenOptions` is in a variable of its own, because the types of passport-jwt mark it as deprecated.
    const verification = { jsonWebTokenOptions: { clockTolerance: tolerance } };
    let known = typeof issuer === 'string' ? issuer : undefined;
    const issuerNow = (): string => (known ??= (issuer as () => string)());
    const provideKey = async (token: string, done: (error: unknown, key?: Buffer) => void): Promise<void> => {
      try {
        const header = decodeProtectedHeader(token);
        const kid = checkHeader({ ...header });
        // An expired token, or one for another service, is refused before the wait for an unknown key.
        const { key, algorithm } = await keys.find(kid, () => {
          checkUnverified(decodeJwt(token), { issuer: issuerNow(), audience, toleranceSeconds: tolerance });
        });
        if (header.alg !== algorithm) throw new Error("The algorithm is not the key's.");
        // jsonwebtoken accepts a KeyObject, although the types of passport-jwt don't say so.
        done(null, key as unknown as Buffer);
      } catch (error) {
        // The error may also be one that jsonwebtoken has thrown inside `done`.
        done(error);
      }
    };
    super(
      {
        ...verification,
        jwtFromRequest: bearerToken,
        secretOrKeyProvider: (_request: IncomingMessage, token: string, done) => { void provideKey(token, done); },
        algorithms: [...ALGORITHMS],
        audience: [audience], // The audience is in an array, because an empty string would disable its check.
      },
      (claims: Claims, done: VerifiedCallback) => {
        try {
          checkClaims(claims, issuerNow(), tolerance);
        } catch (error) {
          done(null, false, error);
          return;
        }
        done(null, toAccessToken(claims, audience));
      },
    );
  }
}

type Authenticate = (request: IncomingMessage) => void;

/** Verifies access tokens with a passport instance of its own: all applications in the process share the global one. */
export class PassportAccessTokenVerifier extends AccessTokenVerifier {
  readonly #passport: passport.Authenticator = new passport.Passport();
  readonly #keys: KeySet;

  /** @throws RangeError when the clock tolerance isn't 0 to 10 s; TypeError when the key set's URL isn't http(s). */
  constructor(options: AuthenticationOptions) {
    super();
    this.#keys = new KeySet(options.keySet, options);
    this.#passport.use('access-token', new AccessTokenStrategy(options, this.#keys));
  }

  override checkHealth(): Promise<void> {
    return this.#keys.checkHealth();
  }

  override verify(request: IncomingMessage): Promise<AccessToken> {
    if (request.headers.authorization === undefined) return Promise.reject(NO_TOKEN);
    return new Promise((resolve, reject) => {
      const done = (error: Error | null, token?: AccessToken | false, info?: unknown) => {
        if (token) resolve(token);
        else reject(error ?? refusal(info));
      };
      // Requests would share a strategy that is passed as an object, and overwrite each other's callbacks on it, so the
      // strategy is selected by name.
      const authenticate = this.#passport.authenticate('access-token', { session: false }, done) as Authenticate;
      authenticate(request);
    });
  }
}

const refusal = (cause: unknown): ServiceError =>
  cause instanceof ServiceError && cause.kind === 'provider-unavailable'
    ? cause
    : new ServiceError('unauthorized', 'The access token is missing or invalid.', { cause });

/** The refusal of requests without a token, which share it: creating an error costs more than the rest. */
const NO_TOKEN = refusal(new Error('There is no Authorization header.'));
