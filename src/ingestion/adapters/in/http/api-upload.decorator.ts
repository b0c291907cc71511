import { applyDecorators } from '@nestjs/common';
import { ApiExtraModels, ApiHeader, ApiOperation, ApiQuery, getSchemaPath } from '@nestjs/swagger';
import { ApiToken } from '../../../../authentication/api-token.decorator.js';
import { ApiSuccess } from '../../../../http/api-answer.decorator.js';
import { ApiErrors } from '../../../../http/api-errors.decorator.js';
import { MAX_FILENAME_LENGTH, MAX_PARAMETER_LENGTH } from '../../../domain/upload.js';
import { UploadForm, UploadJson } from './upload-body.dto.js';

const DIGEST = 'sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:';

const HEADERS = {
  'X-Upload-Id': { description: 'The id of the upload, in its line of the index', schema: { type: 'string' } },
  'X-Upload-Digest': {
    description: "sha-256 over the file's bytes, in the syntax of RFC 9530; only with a file",
    schema: { type: 'string', example: DIGEST },
  },
  'Idempotent-Replayed': {
    description: '`true` when this is the answer to an earlier request under the same Idempotency-Key',
    schema: { type: 'string', enum: ['true'] },
  },
};

const REQUEST_HEADERS = [
  ['Idempotency-Key', 'Repeats within 24 hours get the first answer and store nothing', 'load-2026-11-21'],
  ['X-Upload-Digest', "sha-256 or sha-512 that the file's bytes must have, in the syntax of RFC 9530", DIGEST],
  ['Content-Digest', 'sha-256 or sha-512 that the content of the request must have (RFC 9530)', DIGEST],
  ['Repr-Digest', 'The same as Content-Digest', DIGEST],
].map(([name = '', description = '', example = '']) =>
  // The example isn't in the schema, because Swagger UI would send it as the header's value.
  ApiHeader({ name, required: false, description: `${description}, for example \`${example}\``, schema: { type: 'string' } }),
);

const parameter = (name: string, maxLength: number, description: string, example: string): MethodDecorator =>
  ApiQuery({ name, required: true, description, schema: { type: 'string', minLength: 1, maxLength, example } });

interface DocumentedUpload {
  /** The operation's tag. `@ApiTags` would only add it to the tag that @nestjs/swagger derives from the controller. */
  readonly tag: string;
  readonly operationId: string;
  readonly summary: string;
  readonly filename: string;
  readonly json: Readonly<Record<string, { readonly value: object }>>;
}

const contentOf = ({ json }: DocumentedUpload) => ({
  'multipart/form-data': { schema: { $ref: getSchemaPath(UploadForm) } },
  'application/json': { schema: { $ref: getSchemaPath(UploadJson) }, examples: json },
  'application/octet-stream': { schema: { type: 'string', format: 'binary', description: "The file's bytes" } },
});

const DESCRIPTION = [
  'Send the file as a form, or its bytes as the body with any content type (such as `text/csv`), or JSON without a file.',
  'The answer 200 means that the upload survives a power cut.',
].join('\n\n');

/**
 * Documents an upload operation (service interface, 4.1 and 4.2). Besides what that interface names, the request's body
 * can be the bytes of the file itself.
 */
export function ApiUpload(upload: DocumentedUpload): MethodDecorator {
  const { tag, operationId, summary, filename } = upload;
  return applyDecorators(
    ApiExtraModels(UploadForm, UploadJson),
    // `@ApiBody` isn't used, because it keeps only one content type of the request's body.
    ApiOperation({ tags: [tag], operationId, summary, description: DESCRIPTION, requestBody: { required: false, content: contentOf(upload) } }),
    parameter('customer_id', MAX_PARAMETER_LENGTH, 'Unique ID of the customer', 'acme-energy'),
    parameter('filename', MAX_FILENAME_LENGTH, 'Name of the file being uploaded', filename),
    parameter('manufacturer', MAX_PARAMETER_LENGTH, 'Manufacturer of the data source', 'Landis+Gyr'),
    ...REQUEST_HEADERS,
    ApiToken(),
    ApiSuccess(200, 'Data uploaded successfully.', { headers: HEADERS }),
    ApiErrors(
      'invalid-query-parameter',
      'invalid-request-body',
      'invalid-digest',
      'digest-mismatch',
      'invalid-idempotency-key',
      'request-in-progress',
      'idempotency-key-reused',
      'unauthorized',
      'payload-too-large',
      'unsupported-media-type',
      'provider-unavailable',
    ),
  );
}
