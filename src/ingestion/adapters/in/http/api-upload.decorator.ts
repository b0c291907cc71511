import { applyDecorators } from '@nestjs/common';
import { ApiBearerAuth, ApiHeader, ApiOAuth2, ApiOperation, ApiQuery } from '@nestjs/swagger';
import { ApiErrors } from '../../../../http/api-errors.decorator.js';
import { ApiSuccess } from '../../../../http/api-success.decorator.js';
import { GREEN_BUTTON_EXAMPLE, NEM12_EXAMPLE } from './load-file.examples.js';
import { MAX_FILENAME_LENGTH, MAX_PARAMETER_LENGTH } from '../../../domain/upload.js';

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
  // The example is part of the description, because Swagger UI would send an example that is given as a value.
  ApiHeader({ name, required: false, description: `${description}, for example \`${example}\``, schema: { type: 'string' } }),
);

const parameter = (name: string, maxLength: number, description: string, example: string): MethodDecorator =>
  ApiQuery({ name, required: true, description, schema: { type: 'string', minLength: 1, maxLength, example } });

const QUERY = [
  parameter('customer_id', MAX_PARAMETER_LENGTH, 'Unique ID of the customer', 'acme-energy'),
  parameter('filename', MAX_FILENAME_LENGTH, 'Name of the file being uploaded', 'nem12_multiple_meters.csv'),
  parameter('manufacturer', MAX_PARAMETER_LENGTH, 'Manufacturer of the data source', 'Landis+Gyr'),
];

const ADDITIONAL_DATA = { type: 'string', description: 'Extra data, sent only if required', example: '' } as const;

const CONTENT = {
  'multipart/form-data': {
    schema: {
      type: 'object',
      required: ['file'],
      properties: { file: { type: 'string', format: 'binary' }, additional_data: ADDITIONAL_DATA },
    },
  },
  'application/json': {
    schema: {
      type: 'object',
      description: 'With any other member the whole object is kept as the file, too. There must be no member `file`.',
      properties: { additional_data: { ...ADDITIONAL_DATA, nullable: true } },
    },
    examples: {
      'with additional data': { value: { additional_data: 'meter replaced on 2003-12-04' } },
      'without': { value: {} },
      'with readings, kept as the file': { value: { readings: [{ at: '2003-12-04T00:15:00Z', kwh: 10 }], additional_data: 'meter 7' } },
    },
  },
  'text/csv': {
    schema: { type: 'string', format: 'binary' },
    examples: { 'NEM12 interval data': { value: NEM12_EXAMPLE } },
  },
  'application/xml': {
    schema: { type: 'string', format: 'binary' },
    examples: { 'Green Button usage': { value: GREEN_BUTTON_EXAMPLE } },
  },
  'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
} as const;

/** Documents an upload operation (service interface, 4.1 and 4.2; `Sending the file itself`). */
export function ApiUpload(what: string): MethodDecorator {
  return applyDecorators(
    ApiOperation({
      summary: `Upload ${what} load data`,
      description:
        'As JSON, with a file as multipart/form-data, or with the bytes of the file as the body. ' +
        'The answer 200 means that the upload survives a power cut.',
      // `@ApiBody` isn't used, because it keeps only one content type.
      requestBody: { required: false, content: CONTENT as never },
    }),
    ...QUERY,
    ...REQUEST_HEADERS,
    ApiBearerAuth('token'),
    ApiOAuth2([], 'client'),
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
