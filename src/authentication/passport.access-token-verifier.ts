import type { IncomingMessage } from 'node:http';
import passport from 'passport';
import { ServiceError } from '../common/service-error.js';
import { type AccessToken, AccessTokenVerifier } from './access-token.js';
import type { AccessTokenStrategy } from './access-token.strategy.js';

type Authenticate = (request: IncomingMessage) => void;

/** Verifies by a passport of its own, since the global one would be shared by every application of the process. */
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
      // By name: into a strategy that it gets as an instance, passport would write the callbacks of each request anew.
      const authenticate = this.#passport.authenticate('access-token', { session: false }, done) as Authenticate;
      authenticate(request);
    });
  }
}

const refusal = (cause: unknown): ServiceError =>
  cause instanceof ServiceError && cause.kind === 'provider-unavailable'
    ? cause
    : new ServiceError('unauthorized', 'The access token is missing or must not be believed.', { cause });
