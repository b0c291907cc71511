import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../../../common/service-error.js';
import { assertDeclaredLength, contentCoding, isJsonType, mediaType } from '../../../../http/request-head.js';
import { type ExpectedDigest, parseDigestField } from '../../../../http/digest-fields.js';
import { assertJsonContent } from '../../../../http/json-body.js';
import { queryReader, type RawQuery, requiredText } from '../../../../http/query.js';
import { isCustomerId, isFilename, isManufacturer } from '../../../domain/upload.js';
import type { UploadLimits } from '../../../ingestion.options.js';

/** Room in the length of a form for delimiters, headers and parts that are skipped. */
const FORM_OVERHEAD_BYTES = 1_048_576;
export const DEFAULT_CONTENT_TYPE = 'application/octet-stream';
const NO_DIGESTS: readonly ExpectedDigest[] = [];

/** Reads the query of an upload (service interface, part 2). */
const readUploadQuery = queryReader({
  customer_id: requiredText(isCustomerId),
  filename: requiredText(isFilename),
  manufacturer: requiredText(isManufacturer),
});

export type UploadForm = 'json' | 'multipart' | 'bytes';

export interface UploadHead {
  readonly form: UploadForm;
  readonly contentType: string;
  /** The most bytes of the body; for JSON, after decompression (Content-Encoding). */
  readonly maxBodyBytes: number;
  readonly query: ReturnType<typeof readUploadQuery>;
  readonly idempotencyKey: string | null;
  readonly fileDigests: readonly ExpectedDigest[];
  /** The digests in `Content-Digest` and `Repr-Digest` (RFC 9530), which mean the same for an upload. */
  readonly contentDigests: readonly ExpectedDigest[];
}

/**
 * Reads and validates the head of an upload request (URL and headers), before the body is read.
 *
 * @throws ServiceError of the first kind that applies, in this order: `not-found`, `payload-too-large`,
 *   `unsupported-media-type`, `invalid-query-parameter`, `invalid-idempotency-key`, `invalid-digest`.
 */
export function readUploadHead(request: IncomingMessage, query: RawQuery, limits: UploadLimits): UploadHead {
  // A request of the tus protocol only begins an upload, or has a part of it, and must not be stored as a whole one.
  if (request.headers['tus-resumable'] !== undefined) throw new ServiceError('not-found', 'The tus protocol is not supported.');
  const { form, maxBodyBytes } = assertUploadContent(request, limits);
  return {
    form,
    maxBodyBytes,
    // A Content-Type without a value counts as none.
    contentType: (request.headers['content-type'] ?? '') || DEFAULT_CONTENT_TYPE,
    query: readUploadQuery(query),
    idempotencyKey: idempotencyKeyOf(request),
    ...expectedDigests(request),
  };
}

function assertUploadContent(request: IncomingMessage, limits: UploadLimits): Pick<UploadHead, 'form' | 'maxBodyBytes'> {
  const { maxJsonBytes, maxUploadBytes } = limits;
  const type = mediaType(request);
  if (isJsonType(request, type)) {
    assertJsonContent(request, maxJsonBytes);
    return { form: 'json', maxBodyBytes: maxJsonBytes };
  }
  const isForm = type === 'multipart/form-data';
  const maxBodyBytes = isForm ? maxUploadBytes + maxJsonBytes + FORM_OVERHEAD_BYTES : maxUploadBytes;
  assertDeclaredLength(request, maxBodyBytes);
  if (type === 'application/x-www-form-urlencoded' || contentCoding(request) !== 'identity') throw new ServiceError('unsupported-media-type');
  return { form: isForm ? 'multipart' : 'bytes', maxBodyBytes };
}

function idempotencyKeyOf({ headers }: IncomingMessage): string | null {
  const key = headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || !/^[!-~]{1,255}$/.test(key)) throw new ServiceError('invalid-idempotency-key');
  return key;
}

function expectedDigests({ headers }: IncomingMessage): Pick<UploadHead, 'fileDigests' | 'contentDigests'> {
  const file = headers['x-upload-digest'];
  const content = headers['content-digest'];
  const representation = headers['repr-digest'];
  return {
    fileDigests: file === undefined ? NO_DIGESTS : parseDigestField(file.toString()),
    contentDigests:
      content === undefined && representation === undefined
        ? NO_DIGESTS
        : [...parseDigestField(content?.toString()), ...parseDigestField(representation?.toString())],
  };
}
