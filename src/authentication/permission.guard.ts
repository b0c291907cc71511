import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ServiceError } from '../common/service-error.js';
import { type AccessToken, AccessTokenVerifier } from './access-token.js';
import type { Permission } from './permissions.js';

/** The permission that an operation requires. On a controller, it applies to every handler that doesn't set its own. */
export const RequirePermission = Reflector.createDecorator<Permission>();

const tokens = new WeakMap<IncomingMessage, AccessToken>();

/** The token with which `PermissionGuard` admitted the request; undefined if the guard didn't run. */
export const accessTokenOf = (request: IncomingMessage): AccessToken | undefined => tokens.get(request);

/**
 * For operations that require a further permission for some requests. Call it after `PermissionGuard`.
 *
 * @throws ServiceError `unauthorized` when the token lacks the permission.
 */
export function assertPermission(request: IncomingMessage, permission: Permission): void {
  if (accessTokenOf(request)?.permissions.has(permission) !== true) throw lacks(permission);
}

const lacks = (permission: Permission): ServiceError => new ServiceError('unauthorized', `The token lacks ${permission}.`);

/** Admits tokens with the permission of `@RequirePermission`. An operation without that decorator is closed to all. */
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
