import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ServiceError } from '../common/service-error.js';
import { type AccessToken, AccessTokenVerifier } from './access-token.js';
import type { Permission } from './permissions.js';

/** Names the permission that an operation asks for. On a controller: for each handler that doesn't name its own. */
export const RequirePermission = Reflector.createDecorator<Permission>();

const tokens = new WeakMap<IncomingMessage, AccessToken>();

/** The token that `PermissionGuard` let the request in with; undefined where it didn't stand in front. */
export const accessTokenOf = (request: IncomingMessage): AccessToken | undefined => tokens.get(request);

/**
 * For an operation that needs a further permission for some requests, once `PermissionGuard` has let the request in.
 *
 * @throws ServiceError `unauthorized` when the token lacks it.
 */
export function assertPermission(request: IncomingMessage, permission: Permission): void {
  if (accessTokenOf(request)?.permissions.has(permission) !== true) throw lacks(permission);
}

const lacks = (permission: Permission): ServiceError => new ServiceError('unauthorized', `The token lacks ${permission}.`);

/** Lets in who holds the permission of `@RequirePermission`; an operation without one is closed to all. */
@Injectable()
export class PermissionGuard implements CanActivate {
  constructor(
    private readonly verifier: AccessTokenVerifier,
    private readonly reflector: Reflector,
  ) {}

  /** @throws ServiceError as `AccessTokenVerifier` does, and `unauthorized` when the permission is missing. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const permission = this.reflector.getAllAndOverride(RequirePermission, [context.getHandler(), context.getClass()]) as
      | Permission
      | undefined;
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    const token = await this.verifier.verify(request);
    if (permission === undefined) throw new ServiceError('unauthorized', 'The operation names no permission.');
    if (!token.permissions.has(permission)) throw lacks(permission);
    tokens.set(request, token);
    return true;
  }
}
