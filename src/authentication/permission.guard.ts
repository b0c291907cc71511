import type { IncomingMessage, ServerResponse } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ServiceError } from '../common/service-error.js';
import { SUBJECT, type WithSubject } from '../http/exchange.js';
import { type AccessToken, AccessTokenVerifier } from './access-token.js';
import type { Permission } from './permissions.js';

/** The permission that an operation requires. On a controller, it applies to handlers that name none. */
export const RequirePermission = Reflector.createDecorator<Permission>();

/** The member of an admitted request that holds its token. A WeakMap would cost far more in garbage collection. */
const TOKEN = Symbol('accessToken');
interface AdmittedRequest {
  [TOKEN]?: AccessToken;
}

/** The token of a request that `PermissionGuard` has admitted; otherwise undefined. */
export const accessTokenOf = (request: IncomingMessage): AccessToken | undefined => (request as AdmittedRequest)[TOKEN];

/**
 * Checks a further permission, after `PermissionGuard`.
 *
 * @throws ServiceError `unauthorized` when the token doesn't have the permission, or the guard hasn't admitted the
 *   request.
 */
export function assertPermission(request: IncomingMessage, permission: Permission): void {
  if (accessTokenOf(request)?.permissions.has(permission) !== true) throw lacks(permission);
}

/** Whether an admitted request's token covers the customer's data; without a `customerId`, all customers' (`*`). */
export function coversCustomer(request: IncomingMessage, customerId: string | undefined): boolean {
  const customers = accessTokenOf(request)?.customerIds;
  return customers !== undefined && (customers.has('*') || (customerId !== undefined && customers.has(customerId)));
}

/**
 * Checks the customer whose data a request is about, after `PermissionGuard`.
 *
 * @throws ServiceError `unauthorized` when `coversCustomer` is false.
 */
export function assertCustomer(request: IncomingMessage, customerId: string | undefined): void {
  if (!coversCustomer(request, customerId)) throw new ServiceError('unauthorized', 'The customer_id claim of the token does not cover the customer.');
}

const lacks = (permission: Permission): ServiceError => new ServiceError('unauthorized', `The token lacks ${permission}.`);

/**
 * Admits requests whose token has the permission of `@RequirePermission`; none for an operation without it. What is
 * fetched with a token is not to be kept by browsers, unless the operation sets another `Cache-Control`.
 */
@Injectable()
export class PermissionGuard implements CanActivate {
  constructor(
    private readonly verifier: AccessTokenVerifier,
    private readonly reflector: Reflector,
  ) {}

  /**
   * @throws ServiceError as `AccessTokenVerifier.verify`; `unauthorized` also when the token doesn't have the
   * permission, or the operation has no `@RequirePermission`.
   */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const permission = this.reflector.getAllAndOverride(RequirePermission, [context.getHandler(), context.getClass()]) as
      | Permission
      | undefined;
    const http = context.switchToHttp();
    const request = http.getRequest<IncomingMessage>();
    const token = await this.verifier.verify(request);
    (request as WithSubject)[SUBJECT] = token.subject;
    if (permission === undefined) throw new ServiceError('unauthorized', 'The operation has no @RequirePermission.');
    if (!token.permissions.has(permission)) throw lacks(permission);
    (request as AdmittedRequest)[TOKEN] = token;
    if (request.method === 'GET' || request.method === 'HEAD') http.getResponse<ServerResponse>().setHeader('Cache-Control', 'no-store');
    return true;
  }
}
