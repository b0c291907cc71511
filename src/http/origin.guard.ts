import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, SetMetadata } from '@nestjs/common';
import type { Reflector } from '@nestjs/core';
import { ServiceError } from '../common/service-error.js';
import { requestAuthority } from './request-head.js';

const ANY_ORIGIN = 'http:any-origin';

export interface AllowedOrigins {
  /** The allowed origins, serialized (RFC 6454, section 6.2); `*` allows all. */
  readonly corsOrigins: readonly string[];
  /** The public base URL of the service. `port` is the local port of the connection, or undefined if it is closed. */
  readonly baseUrl: (port: number | undefined) => string;
}

/** Exempts handlers from `OriginGuard`. For handlers that change nothing or require a secret in each request. */
export const FromAnyOrigin = (): ClassDecorator & MethodDecorator => SetMetadata(ANY_ORIGIN, true);

/**
 * Refuses requests from pages of other sites (cross-site request forgery): browsers send "simple" requests without a
 * preflight (Fetch standard, CORS). Must be asked only about requests with the header `Origin` (see `onlyWithHeader`),
 * because the guard treats a request without that header as foreign, unless `*` is allowed.
 */
export class OriginGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly allowed: AllowedOrigins,
  ) {}

  /**
   * @throws ServiceError `unauthorized` when the request's `Origin` is not allowed and neither the handler nor its
   * class is marked with `FromAnyOrigin`.
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

function parseOrigin(text: string): URL | undefined {
  return /^https?:\/\/[^/?#@\\\s,]+$/i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
}
