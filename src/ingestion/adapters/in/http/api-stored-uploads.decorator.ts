import { applyDecorators, UseGuards } from '@nestjs/common';
import { ApiHeader, ApiOperation, ApiParam, ApiQuery, ApiResponse } from '@nestjs/swagger';
import { ApiToken } from '../../../../authentication/api-token.decorator.js';
import { PermissionGuard, RequirePermission } from '../../../../authentication/permission.guard.js';
import type { ServicePermission } from '../../../../authentication/permissions.js';
import { ApiAnswer, REQUEST_ID_HEADER } from '../../../../http/api-answer.decorator.js';
import { ApiErrors } from '../../../../http/api-errors.decorator.js';
import { MAX_PARAMETER_LENGTH, UPLOAD_KINDS } from '../../../domain/upload.js';
import { StoredUpload, UPLOAD_ID, UploadPageBody, UploadsRemoved } from './stored-uploads-answers.dto.js';
import { DEFAULT_LIMIT, MAX_LIMIT } from './stored-uploads-query.js';

const uploadId = ApiParam({ name: 'upload_id', description: 'The `X-Upload-Id` of the upload', schema: { type: 'string', format: 'uuid', example: UPLOAD_ID.example } });

const query = (name: string, description: string, schema: object, required = false): MethodDecorator =>
  ApiQuery({ name, required, description, schema });

const time = (name: string, description: string, example: string): MethodDecorator => query(name, description, { type: 'string', format: 'date-time', example });

const customer = (description: string, required: boolean): MethodDecorator =>
  query('customer_id', description, { type: 'string', minLength: 1, maxLength: MAX_PARAMETER_LENGTH, example: 'acme-energy' }, required);

interface DocumentedOperation {
  readonly operationId: string;
  readonly summary: string;
  /** Follows what the description of each operation says. */
  readonly note?: string;
}

/** Declares and documents an operation on stored uploads, which needs a token with the given permission. */
export const StoredUploadsOperation = (permission: ServicePermission, { note, ...operation }: DocumentedOperation): MethodDecorator =>
  applyDecorators(
    RequirePermission(permission),
    UseGuards(PermissionGuard),
    ApiOperation({ ...operation, description: `Needs the permission \`${permission}\`, and a \`customer_id\` claim that covers the customer.${note === undefined ? '' : ` ${note}`}` }),
    ApiToken(),
  );

/** Documents `GET /uploads`. */
export const ApiUploadPage = (): MethodDecorator =>
  applyDecorators(
    customer('Only uploads of this customer; required unless the claim is `*`', false),
    query('kind', 'Only uploads of this kind', { type: 'string', enum: [...UPLOAD_KINDS], example: UPLOAD_KINDS[0] }),
    time('from', 'Only uploads received at this time (RFC 3339) or later', '2026-01-01T00:00:00Z'),
    time('to', 'Only uploads received before this time (RFC 3339)', '2100-01-01T00:00:00Z'),
    query('limit', 'Maximum number of uploads in the page', { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT }),
    query('page_token', 'The `next_page_token` of the page before', { type: 'string' }),
    ApiAnswer(200, 'A page of uploads', { body: UploadPageBody }),
    ApiErrors('invalid-query-parameter', 'unauthorized', 'not-found', 'provider-unavailable'),
  );

/** Documents `GET /uploads/<upload_id>`. */
export const ApiStoredUpload = (): MethodDecorator =>
  applyDecorators(uploadId, ApiAnswer(200, 'The upload', { body: StoredUpload }), ApiErrors('unauthorized', 'not-found', 'provider-unavailable'));

const header = (description: string) => ({ description, schema: { type: 'string' as const } });
const ETAG = header('Strong entity tag of the file');
const CONTENT_HEADERS = {
  ...REQUEST_ID_HEADER,
  ETag: ETAG,
  'Repr-Digest': header('sha-256 of the whole file (RFC 9530)'),
  'Content-Disposition': header('`attachment` with the filename'),
  'Accept-Ranges': header('`bytes`'),
};
const BYTES = { 'application/octet-stream': { schema: { type: 'string' as const, format: 'binary' } } };

/** Documents `GET /uploads/<upload_id>/content`. */
export const ApiContent = (): MethodDecorator =>
  applyDecorators(
    uploadId,
    ApiHeader({ name: 'Range', required: false, description: 'One range of bytes (RFC 9110)', schema: { type: 'string' } }),
    ApiHeader({ name: 'If-Range', required: false, description: 'The `ETag` for which the range is meant', schema: { type: 'string' } }),
    ApiHeader({ name: 'If-None-Match', required: false, description: 'An `ETag` that the client has', schema: { type: 'string' } }),
    ApiResponse({ status: 200, description: 'The bytes as received', headers: CONTENT_HEADERS, content: BYTES }),
    ApiResponse({ status: 206, description: 'A part of the bytes', headers: { ...CONTENT_HEADERS, 'Content-Range': header('Which part') }, content: BYTES }),
    ApiResponse({ status: 304, description: 'The client has the file already', headers: { ...REQUEST_ID_HEADER, ETag: ETAG } }),
    ApiErrors('unauthorized', 'not-found', 'range-not-satisfiable', 'provider-unavailable'),
  );

/** Documents `DELETE /uploads/<upload_id>`. */
export const ApiRemoval = (): MethodDecorator =>
  applyDecorators(
    uploadId,
    ApiResponse({ status: 204, description: 'The upload is gone for good', headers: REQUEST_ID_HEADER }),
    ApiErrors('unauthorized', 'not-found', 'provider-unavailable'),
  );

/** Documents `DELETE /uploads`. */
export const ApiRemovalOfAll = (): MethodDecorator =>
  applyDecorators(
    customer('The customer whose uploads are removed', true),
    // The example is in the past, so that a removal that is tried as it stands removes no recent upload.
    time('before', 'Only uploads received before this time (RFC 3339)', '2026-01-01T00:00:00Z'),
    ApiAnswer(200, 'All that were answered before the request are gone for good', { body: UploadsRemoved }),
    ApiErrors('invalid-query-parameter', 'unauthorized', 'not-found', 'provider-unavailable'),
  );
