import { applyDecorators, UseFilters, UseGuards } from '@nestjs/common';
import { ApiBearerAuth, ApiOAuth2, ApiOperation } from '@nestjs/swagger';
import { PermissionGuard, RequirePermission } from '../../../../authentication/permission.guard.js';
import type { ServicePermission } from '../../../../authentication/permissions.js';
import type { ErrorKind } from '../../../../common/service-error.js';
import { ApiErrors } from '../../../../http/api-errors.decorator.js';
import { RefusalFilter } from './refusal.filter.js';

const operation = (permission: ServicePermission, summary: string, note?: string): MethodDecorator =>
  applyDecorators(
    RequirePermission(permission),
    ApiOperation({ summary, description: [`Needs the permission \`${permission}\`.`, note].filter(Boolean).join(' ') }),
    ApiBearerAuth('token'),
    ApiOAuth2([], 'client'),
  );

/** Declares an operation without a request body. */
export const IdentityQuery = (permission: ServicePermission, summary: string): MethodDecorator =>
  applyDecorators(
    operation(permission, summary),
    UseGuards(PermissionGuard),
    ApiErrors('unauthorized', 'provider-error', 'provider-unavailable'),
  );

/**
 * Declares an operation with a JSON request body. An invalid body, and a value that identity management refuses, is
 * answered with the error `refusal`.
 *
 * @param note is added to the operation's description in the OpenAPI document.
 */
export const IdentityCommand = (permission: ServicePermission, summary: string, refusal: ErrorKind, note?: string): MethodDecorator =>
  applyDecorators(
    operation(permission, summary, note),
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
