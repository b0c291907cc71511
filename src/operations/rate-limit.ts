import { createHash } from 'node:crypto';
import type { Request } from 'express';
import { type ExecutionContext, Injectable } from '@nestjs/common';
import { SkipThrottle, ThrottlerGuard, type ThrottlerLimitDetail, type ThrottlerModuleOptions } from '@nestjs/throttler';
import { bearerToken } from '../authentication/passport.access-token-verifier.js';
import { MINUTE_MS } from '../common/durations.js';
import { ServiceError } from '../common/service-error.js';
import { clientNetwork } from '../http/client-network.js';
import { RequestCounts } from './request-counts.js';

const token = (context: ExecutionContext): string | null => bearerToken(context.switchToHttp().getRequest<Request>());

/**
 * The part of a signed token that only its issuer can change without making the token invalid, so that nobody gets a
 * fresh limit by changing a token. An ECDSA signature (r, s) has a second valid form, (r, n - s). So only the first
 * third of its characters is used, which lies within r.
 */
function unforgeable(jws: string): string {
  const signature = jws.lastIndexOf('.') + 1;
  return jws.slice(0, signature + Math.floor((jws.length - signature) / 3));
}

/**
 * Allows `perMinute` (at least 1) requests per minute for each client network and for each token. A network or token
 * that exceeds this is refused for a minute.
 */
export const rateLimit = (perMinute: number): ThrottlerModuleOptions => ({
  setHeaders: false,
  storage: new RequestCounts(),
  generateKey: (_context, tracker, name) => `${name}:${tracker}`,
  throttlers: [
    { name: 'address', ttl: MINUTE_MS, limit: perMinute, getTracker: (request) => clientNetwork((request as unknown as Request).ip) },
    {
      name: 'token',
      ttl: MINUTE_MS,
      limit: perMinute,
      skipIf: (context) => token(context) === null,
      getTracker: (_request, context) => createHash('sha256').update(unforgeable(token(context) ?? '')).digest('base64'),
    },
  ],
});

/** Refuses requests over the rate limit. Must run before every other guard. */
@Injectable()
export class RateLimitGuard extends ThrottlerGuard {
  protected override throwThrottlingException(_context: ExecutionContext, detail: ThrottlerLimitDetail): Promise<void> {
    const retryAfterSeconds = Math.max(1, Math.ceil(detail.timeToBlockExpire));
    throw new ServiceError('too-many-requests', 'rate limit', { retryAfterSeconds });
  }
}

/** Exempts handlers from the rate limit. */
export const NotRateLimited = (): ClassDecorator & MethodDecorator => SkipThrottle({ address: true, token: true });
