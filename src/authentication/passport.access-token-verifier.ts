import type { IncomingMessage } from 'node:http';
import passport from 'passport';
import { ServiceError } from '../common/service-error.js';
import { type AccessToken, AccessTokenVerifier } from './access-token.js';
import type { AccessTokenStrategy } from './access-token.strategy.js';

type Authenticate = (request: IncomingMessage) => void;

/**
 * Verifies access tokens with a separate passport instance, because the global instance is shared by every application
 * in the process.
 */
export class PassportAccessTokenVerifier extends AccessTokenVerifier {
  readonly #passport: passport.Authenticator = new passport.Passport();

  constructor(strategy: AccessTokenStrategy) {
    super();
    this.#passport.use('access-token', strategy);
  }

  override verify(request: IncomingMessage): Promise<AccessToken> {
    return new Promise((resolve, reject) => {
      const done = (error: Error | null, token?: AccessToken | false, info?: unknown) => {
        if (token) resolve(token);
        else reject(error ?? refusal(info));
      };
      // Selects the strategy by name. On a strategy passed as an instance, passport would set the callbacks of each
      // request, so that concurrent requests would overwrite each other's callbacks.
      const authenticate = this.#passport.authenticate('access-token', { session: false }, done) as Authenticate;
      authenticate(request);
    });
  }
}

const refusal = (cause: unknown): ServiceError =>
  cause instanceof ServiceError && cause.kind === 'provider-unavailable'
    ? cause
    : new ServiceError('unauthorized', 'The access token is missing or invalid.', { cause });
