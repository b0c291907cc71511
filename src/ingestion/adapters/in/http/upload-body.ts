import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../../../common/service-error.js';
import { isUnicode } from '../../../../common/text.js';
import { type ExpectedDigest, parseDigestField, verified } from '../../../../http/digest-fields.js';
import { collect, decodeText, readJson } from '../../../../http/json-body.js';
import { contentTypeAsSent, mediaTypeParameter } from '../../../../http/media-type.js';
import { requestBody } from '../../../../http/request-body.js';
import type { UploadLoadDataCommand } from '../../../application/upload-load-data.use-case.js';
import type { UploadLimits } from '../../../ingestion.options.js';
import { type MultipartPart, MultipartReader } from './multipart-reader.js';
import { maxBodyBytes, uploadForm } from './upload-content.js';

/** The part of the command that comes from a request's body. */
export type UploadBody = Pick<UploadLoadDataCommand, 'file' | 'additionalData'>;

const DEFAULT_CONTENT_TYPE = 'application/octet-stream';

const malformed = (message: string): ServiceError => new ServiceError('invalid-request-body', message);

/**
 * Opens the body of an upload: JSON is read whole, a file is left to be streamed.
 *
 * @throws ServiceError `invalid-digest`, `invalid-request-body`, `digest-mismatch`, `payload-too-large`,
 * `request-timeout`, `client-aborted`; so do the file's bytes and `additionalData`.
 */
export async function openUploadBody(request: IncomingMessage, limits: UploadLimits): Promise<UploadBody> {
  const { idleTimeoutMs } = limits;
  const { file, content } = expectedDigests(request);
  switch (uploadForm(request)) {
    case 'json': {
      const additionalData = additionalDataOf(await readJson(request, { idleTimeoutMs, maxBytes: limits.maxJsonBytes, digests: content }));
      return { file: null, additionalData: () => Promise.resolve(additionalData) };
    }
    case 'bytes': {
      const contentType = contentTypeAsSent(request) ?? DEFAULT_CONTENT_TYPE;
      const bytes = requestBody(request, { idleTimeoutMs, maxBytes: limits.maxUploadBytes });
      // The content is the file.
      return { file: fileOf(contentType, bytes, [...file, ...content]), additionalData: () => Promise.resolve(null) };
    }
    case 'multipart':
      return openForm(request, limits, file, content);
  }
}

function additionalDataOf(body: unknown): string | null {
  if (body === undefined) return null;
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw malformed('not an object');
  const value = 'additional_data' in body && Object.hasOwn(body, 'additional_data') ? body.additional_data : null;
  if (value !== null && (typeof value !== 'string' || !isUnicode(value))) throw malformed('additional_data');
  return value;
}

/**
 * What the client says of the file (`X-Upload-Digest`), and of the content as it sends it (RFC 9530: `Content-Digest`,
 * and `Repr-Digest`, which is the same for a request).
 */
function expectedDigests({ headers }: IncomingMessage): Record<'file' | 'content', ExpectedDigest[]> {
  const fields = (...names: string[]) => names.flatMap((name) => parseDigestField(headers[name]?.toString()));
  return { file: fields('x-upload-digest'), content: fields('content-digest', 'repr-digest') };
}

/** A file whose sha-256 is left to the store, which computes it anyway. */
function fileOf(contentType: string, bytes: AsyncGenerator<Buffer, void, undefined>, digests: ExpectedDigest[]): UploadBody['file'] {
  const isSha256 = ({ algorithm }: ExpectedDigest): boolean => algorithm === 'sha-256';
  return {
    contentType,
    bytes: verified(bytes, digests.filter((digest) => !isSha256(digest))),
    expectedSha256: digests.filter(isSha256).map(({ value }) => value.toString('hex')),
  };
}

async function openForm(
  request: IncomingMessage,
  limits: UploadLimits,
  fileDigests: ExpectedDigest[],
  contentDigests: ExpectedDigest[],
): Promise<UploadBody> {
  const boundary = mediaTypeParameter(request, 'boundary');
  if (!boundary || boundary.length > 70) throw malformed('no boundary');
  const { idleTimeoutMs } = limits;
  const body = requestBody(request, { idleTimeoutMs, maxBytes: maxBodyBytes('multipart', limits), digests: contentDigests });
  const form = new UploadFormReader(new MultipartReader(body, boundary), limits);
  const file = await form.nextFile();
  if (!file) throw malformed('no part "file"');
  return {
    file: fileOf(file.contentType ?? DEFAULT_CONTENT_TYPE, limited(file.bytes, limits.maxUploadBytes), fileDigests),
    additionalData: () => form.finish(),
  };
}

/** Exactly one part `file`, at most one `additional_data`, before or behind it; other parts are passed over. */
class UploadFormReader {
  private additionalData: string | null = null;

  constructor(
    private readonly parts: MultipartReader,
    private readonly limits: UploadLimits,
  ) {}

  /** The next part `file`, on whose way `additional_data` is kept; undefined at the end of the form. */
  async nextFile(): Promise<MultipartPart | undefined> {
    for (let part; (part = await this.parts.next()); ) {
      if (part.name === 'file') return part;
      if (part.name === 'additional_data') {
        if (this.additionalData !== null) throw malformed('additional_data twice');
        this.additionalData = decodeText(await collect(part.bytes, this.limits.maxJsonBytes));
      }
    }
    return undefined;
  }

  async finish(): Promise<string | null> {
    if (await this.nextFile()) throw malformed('a second part "file"');
    return this.additionalData;
  }
}

async function* limited(bytes: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
  let length = 0;
  for await (const chunk of bytes) {
    length += chunk.length;
    if (length > maxBytes) throw new ServiceError('payload-too-large');
    yield chunk;
  }
}
