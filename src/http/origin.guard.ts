import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, SetMetadata } from '@nestjs/common';
import type { Reflector } from '@nestjs/core';
import { ServiceError } from '../common/service-error.js';
import { requestAuthority } from './request-head.js';

const ANY_ORIGIN = 'http:any-origin';

/**
 * Origins whose pages may call the operations, in addition to those at the host and port that the request itself is
 * addressed to, with either scheme.
 */
export interface AllowedOrigins {
  /** Serialized origins (RFC 6454, section 6.2), or `*` for all. */
  readonly corsOrigins: readonly string[];
  /**
   * Returns the public base URL of the service (`{base_url}`). `port` is the local port of the request's connection, or
   * undefined if the connection is closed.
   */
  readonly baseUrl: (port: number | undefined) => string;
}

/** Exempts handlers from `OriginGuard`. For handlers that change nothing, or that require a secret in each request. */
export const FromAnyOrigin = (): ClassDecorator & MethodDecorator => SetMetadata(ANY_ORIGIN, true);

/**
 * Refuses requests from pages of other sites (cross-site request forgery). A form or script on any page can make a
 * visitor's browser send an upload, because browsers send "simple" requests without a preflight (Fetch standard, CORS).
 * Browsers send `Origin` with every request that isn't a GET or HEAD, and with every cross-origin request whose answer
 * a script can read. So the guard must be asked only about requests with `Origin` (`onlyWithHeader`): it takes requests
 * without it for foreign, unless `*` is allowed. Runs before the body is read.
 */
export class OriginGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly allowed: AllowedOrigins,
  ) {}

  /**
   * @throws ServiceError `unauthorized` when the request's `Origin` is not allowed and the handler is not marked with
   * `FromAnyOrigin`.
   */
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    if (this.isAllowed(request.headers.origin ?? '', request)) return true;
    if (this.reflector.getAllAndOverride<boolean>(ANY_ORIGIN, [context.getHandler(), context.getClass()])) return true;
    throw new ServiceError('unauthorized', 'The Origin is not that of PUBLIC_URL or Host, and not in CORS_ORIGINS.');
  }

  private isAllowed(text: string, request: IncomingMessage): boolean {
    const { corsOrigins } = this.allowed;
    if (corsOrigins.includes('*')) return true;
    const origin = parseOrigin(text);
    if (!origin) return false;
    return (
      corsOrigins.includes(origin.origin) ||
      parseOrigin(`${origin.protocol}//${requestAuthority(request) ?? ''}`)?.origin === origin.origin ||
      new URL(this.allowed.baseUrl(request.socket.localPort)).origin === origin.origin
    );
  }
}

/**
 * Parses `http[s]://host[:port]`; undefined for other text. `origin` of the result is in lower case, and omits the
 * default port of its scheme.
 */
function parseOrigin(text: string): URL | undefined {
  return /^https?:\/\/[^/?#@\\\s,]+$/i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
}
