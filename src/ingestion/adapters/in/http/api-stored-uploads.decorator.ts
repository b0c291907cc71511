import { applyDecorators, UseGuards } from '@nestjs/common';
import { ApiBearerAuth, ApiHeader, ApiOAuth2, ApiOperation, ApiParam, ApiQuery, ApiResponse } from '@nestjs/swagger';
import { PermissionGuard, RequirePermission } from '../../../../authentication/permission.guard.js';
import type { ServicePermission } from '../../../../authentication/permissions.js';
import { ApiErrors, REQUEST_ID_HEADER } from '../../../../http/api-errors.decorator.js';
import { MAX_PARAMETER_LENGTH, UPLOAD_KINDS } from '../../../domain/upload.js';

const UPLOAD = {
  type: 'object',
  required: ['upload_id', 'kind', 'customer_id', 'filename', 'manufacturer', 'additional_data', 'received_at', 'content_type', 'content_size', 'content_sha256'],
  properties: {
    upload_id: { type: 'string', format: 'uuid' },
    kind: { type: 'string', enum: [...UPLOAD_KINDS] },
    customer_id: { type: 'string' },
    filename: { type: 'string' },
    manufacturer: { type: 'string' },
    additional_data: { type: 'string', nullable: true },
    received_at: { type: 'string', format: 'date-time' },
    content_type: { type: 'string', nullable: true },
    content_size: { type: 'integer', nullable: true, description: 'Length of the file in bytes; null without a file' },
    content_sha256: { type: 'string', nullable: true, description: 'sha-256 of the file in lower-case hex' },
  },
};

const UPLOAD_ID = ApiParam({ name: 'upload_id', description: 'The `X-Upload-Id` of the upload', schema: { type: 'string', format: 'uuid' } });

const query = (name: string, description: string, schema: object, required = false): MethodDecorator =>
  ApiQuery({ name, required, description, schema });

const time = (name: string, description: string): MethodDecorator => query(name, description, { type: 'string', format: 'date-time' });

const customer = (description: string, required: boolean): MethodDecorator =>
  query('customer_id', description, { type: 'string', minLength: 1, maxLength: MAX_PARAMETER_LENGTH }, required);

/** Declares an operation on stored uploads, which always needs a token. */
export const StoredUploadsOperation = (permission: ServicePermission, operationId: string, summary: string): MethodDecorator =>
  applyDecorators(
    RequirePermission(permission),
    UseGuards(PermissionGuard),
    ApiOperation({ operationId, summary, description: `Needs the permission \`${permission}\`, and a \`customer_id\` claim that covers the customer.` }),
    ApiBearerAuth('token'),
    ApiOAuth2([], 'client'),
  );

const answer = (status: number, description: string, more: object = {}): MethodDecorator =>
  ApiResponse({ status, description, headers: REQUEST_ID_HEADER, ...more });

/** Documents `GET /uploads`. */
export const ApiListOfUploads = (): MethodDecorator =>
  applyDecorators(
    customer('Only uploads of this customer; required unless the claim is `*`', false),
    query('kind', 'Only uploads of this kind', { type: 'string', enum: [...UPLOAD_KINDS] }),
    time('from', 'Only uploads received at this time (RFC 3339) or later'),
    time('to', 'Only uploads received before this time (RFC 3339)'),
    query('limit', 'Maximum number of uploads in the page', { type: 'integer', minimum: 1, maximum: 1000, default: 100 }),
    query('page_token', 'The `next_page_token` of the page before', { type: 'string' }),
    answer(200, 'A page of uploads. It may be short, and even empty, although more follow.', {
      schema: {
        type: 'object',
        required: ['uploads', 'next_page_token'],
        properties: { uploads: { type: 'array', items: UPLOAD }, next_page_token: { type: 'string', nullable: true } },
      },
    }),
    ApiErrors('invalid-query-parameter', 'unauthorized', 'not-found', 'provider-unavailable'),
  );

/** Documents `GET /uploads/<upload_id>`. */
export const ApiStoredUpload = (): MethodDecorator =>
  applyDecorators(UPLOAD_ID, answer(200, 'The upload', { schema: UPLOAD }), ApiErrors('unauthorized', 'not-found', 'provider-unavailable'));

/** Documents `GET /uploads/<upload_id>/content`. */
export const ApiContent = (): MethodDecorator => {
  const headers = {
    ...REQUEST_ID_HEADER,
    ETag: { description: 'Strong entity tag', schema: { type: 'string' } },
    'Repr-Digest': { description: 'sha-256 of the whole file (RFC 9530)', schema: { type: 'string' } },
    'Content-Disposition': { description: '`attachment` with the filename', schema: { type: 'string' } },
  };
  const content = { '*/*': { schema: { type: 'string', format: 'binary' } } };
  return applyDecorators(
    UPLOAD_ID,
    ApiHeader({ name: 'Range', required: false, description: 'One range of bytes (RFC 9110)', schema: { type: 'string' } }),
    ApiHeader({ name: 'If-None-Match', required: false, description: 'An `ETag` that the client has', schema: { type: 'string' } }),
    answer(200, 'The bytes as received', { headers, content }),
    answer(206, 'A part of the bytes', { headers, content }),
    answer(304, 'The client has the bytes already'),
    ApiErrors('unauthorized', 'not-found', 'range-not-satisfiable', 'provider-unavailable'),
  );
};

/** Documents `DELETE /uploads/<upload_id>`. */
export const ApiRemoval = (): MethodDecorator =>
  applyDecorators(UPLOAD_ID, answer(204, 'The upload is gone for good'), ApiErrors('unauthorized', 'not-found', 'provider-unavailable'));

/** Documents `DELETE /uploads`. */
export const ApiRemovalOfAll = (): MethodDecorator =>
  applyDecorators(
    customer('The customer whose uploads are removed', true),
    time('before', 'Only uploads received before this time (RFC 3339)'),
    answer(200, 'All of them are gone for good', {
      schema: { type: 'object', required: ['status', 'deleted'], properties: { status: { type: 'string', enum: ['success'] }, deleted: { type: 'integer' } } },
    }),
    ApiErrors('invalid-query-parameter', 'unauthorized', 'not-found', 'provider-unavailable'),
  );
