import { applyDecorators, UseFilters, UseGuards } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import { ApiToken } from '../../../../authentication/api-token.decorator.js';
import { PermissionGuard, RequirePermission } from '../../../../authentication/permission.guard.js';
import type { ServicePermission } from '../../../../authentication/permissions.js';
import type { ErrorKind } from '../../../../common/service-error.js';
import { ApiErrors } from '../../../../http/api-errors.decorator.js';
import { RefusalFilter } from './refusal.filter.js';

interface Documented {
  readonly operationId: string;
  readonly summary: string;
  readonly note?: string;
}

const operation = (permission: ServicePermission, { operationId, summary, note }: Documented): MethodDecorator =>
  applyDecorators(
    RequirePermission(permission),
    ApiOperation({ operationId, summary, description: [`Needs the permission \`${permission}\`.`, note].filter(Boolean).join(' ') }),
    ApiToken(),
  );

/** Declares an operation on roles or users without a request body. */
export const IdentityQuery = (permission: ServicePermission, documented: Documented): MethodDecorator =>
  applyDecorators(
    operation(permission, documented),
    UseGuards(PermissionGuard),
    ApiErrors('unauthorized', 'provider-error', 'provider-unavailable'),
  );

/**
 * Declares an operation on roles or users with a JSON body. Every `IdentityRefusal` and error `invalid-request-body` is
 * answered as an error of the kind `refusal`.
 */
export const IdentityCommand = (permission: ServicePermission, refusal: ErrorKind, documented: Documented): MethodDecorator =>
  applyDecorators(
    operation(permission, documented),
    UseGuards(PermissionGuard),
    UseFilters(new RefusalFilter(refusal)),
    ApiErrors(
      refusal,
      'unauthorized',
      'payload-too-large',
      'unsupported-media-type',
      'provider-error',
      'provider-unavailable',
    ),
  );
