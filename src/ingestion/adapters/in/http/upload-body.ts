import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../../../common/service-error.js';
import { isUnicodeText } from '../../../../common/long-text.js';
import { Turns } from '../../../../common/turns.js';
import { Utf8Decoder } from '../../../../common/utf8.js';
import { type ExpectedDigest, parseDigestField, verified } from '../../../../http/digest-fields.js';
import { BodyMemory } from '../../../../http/body-memory.js';
import { type JsonObject, openJson } from '../../../../http/json-body.js';
import { contentTypeAsSent, mediaTypeParameter } from '../../../../http/media-type.js';
import { requestBody } from '../../../../http/request-body.js';
import type { UploadLoadDataCommand } from '../../../application/upload-load-data.use-case.js';
import type { UploadLimits } from '../../../ingestion.options.js';
import { type MultipartPart, MultipartReader } from './multipart-reader.js';
import { maxBodyBytes, uploadForm } from './upload-content.js';

/** The part of the command that comes from the body of a request. */
type UploadContent = Pick<UploadLoadDataCommand, 'file' | 'additionalData'>;

/** The body of a request after it was opened. */
export interface UploadBody {
  readonly content: UploadContent;
  /** Releases the memory of the body. Call it when the upload has ended, whether or not it succeeded. */
  close(): void;
}

const DEFAULT_CONTENT_TYPE = 'application/octet-stream';
/** A client that serializes a `Blob` as JSON sends `file` without the bytes. It should have sent a form. */
const JSON_MEMBERS: ReadonlySet<string> = new Set(['additional_data', 'file']);
/** A text up to this length in bytes is decoded without yielding to other requests. */
const SMALL_TEXT_BYTES = 16 * 1024;
/** How much text is decoded in one step, in bytes. */
const STEP_BYTES = 64 * 1024;

const malformed = (message: string, cause?: unknown): ServiceError => new ServiceError('invalid-request-body', message, { cause });

/**
 * Opens the body of an upload. JSON with only `additional_data` is read to its end. A file is left to be streamed, and
 * so is JSON with other members, which is stored as a file too.
 *
 * @throws ServiceError `invalid-digest`, `invalid-request-body`, `digest-mismatch`, `payload-too-large`,
 *   `request-timeout`, `client-aborted`; reading the file or calling `additionalData` may throw the same errors.
 */
export async function openUploadBody(request: IncomingMessage, limits: UploadLimits): Promise<UploadBody> {
  const digests = expectedDigests(request);
  const memory = new BodyMemory(request);
  const close = (): void => {
    memory.release();
  };
  try {
    const { file, additionalData } = await openContent(request, limits, digests, memory);
    const withLineMemory = async (): Promise<string | null> => {
      const text = await additionalData();
      if (text !== null) await memory.growForLine(text);
      return text;
    };
    return { content: { file, additionalData: withLineMemory }, close };
  } catch (error) {
    close();
    throw error;
  }
}

async function openContent(
  request: IncomingMessage,
  limits: UploadLimits,
  { file, content }: ExpectedDigests,
  memory: BodyMemory,
): Promise<UploadContent> {
  const { idleTimeoutMs } = limits;
  switch (uploadForm(request)) {
    case 'json': {
      const object = await openJson(request, { idleTimeoutMs, maxBytes: limits.maxJsonBytes, digests: content, memory }, JSON_MEMBERS);
      if (!object?.bytes) {
        const additionalData = await additionalDataOf(object);
        return { file: null, additionalData: () => Promise.resolve(additionalData) };
      }
      return {
        file: fileOf(contentTypeAsSent(request) ?? DEFAULT_CONTENT_TYPE, object.bytes, file),
        additionalData: () => additionalDataOf(object),
      };
    }
    case 'bytes': {
      const contentType = contentTypeAsSent(request) ?? DEFAULT_CONTENT_TYPE;
      const bytes = requestBody(request, { idleTimeoutMs, maxBytes: limits.maxUploadBytes });
      // The content of the request is the file, so both kinds of digests apply.
      return { file: fileOf(contentType, bytes, [...file, ...content]), additionalData: () => Promise.resolve(null) };
    }
    case 'multipart':
      return openForm(request, limits, { file, content }, memory);
  }
}

async function additionalDataOf(object: JsonObject | undefined): Promise<string | null> {
  if (object?.members.has('file')) throw malformed('a member "file"');
  const value = object?.members.get('additional_data') ?? null;
  if (value !== null && (typeof value !== 'string' || !(await isUnicodeText(value)))) throw malformed('additional_data is no Unicode text');
  return value;
}

interface ExpectedDigests {
  readonly file: ExpectedDigest[];
  readonly content: ExpectedDigest[];
}

/**
 * The digests that the client sent for the file (`X-Upload-Digest`) and for the content of the request (RFC 9530:
 * `Content-Digest`, and `Repr-Digest`, which is the same for a request).
 */
function expectedDigests({ headers }: IncomingMessage): ExpectedDigests {
  const fields = (...names: string[]) => names.flatMap((name) => (headers[name] === undefined ? [] : parseDigestField(headers[name].toString())));
  return { file: fields('x-upload-digest'), content: fields('content-digest', 'repr-digest') };
}

/** A file whose sha-256 is left to the store, which computes it anyway. */
function fileOf(contentType: string, bytes: AsyncGenerator<Buffer, void, undefined>, digests: ExpectedDigest[]): UploadContent['file'] {
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
  digests: ExpectedDigests,
  memory: BodyMemory,
): Promise<UploadContent> {
  const boundary = mediaTypeParameter(request, 'boundary');
  if (!boundary || boundary.length > 70) throw malformed('no boundary');
  const { idleTimeoutMs } = limits;
  const body = requestBody(request, { idleTimeoutMs, maxBytes: maxBodyBytes('multipart', limits), digests: digests.content, memory });
  const form = new UploadFormReader(new MultipartReader(body, boundary), limits, memory);
  const file = await form.nextFile();
  if (!file) throw malformed('no part "file"');
  return {
    file: fileOf(file.contentType ?? DEFAULT_CONTENT_TYPE, limited(file.bytes, limits.maxUploadBytes), digests.file),
    additionalData: () => form.finish(),
  };
}

/**
 * Reads a form with exactly one part `file`, and at most one `additional_data` before or after it. Skips other parts.
 */
class UploadFormReader {
  private additionalData: string | null = null;

  constructor(
    private readonly parts: MultipartReader,
    private readonly limits: UploadLimits,
    private readonly memory: BodyMemory,
  ) {}

  /** The next part `file`; undefined at the end of the form. Keeps `additional_data` if it comes first. */
  async nextFile(): Promise<MultipartPart | undefined> {
    for (let part; (part = await this.parts.next()); ) {
      if (part.name === 'file') return part;
      if (part.name === 'additional_data') {
        if (this.additionalData !== null) throw malformed('additional_data twice');
        this.additionalData = await readText(part.bytes, this.limits.maxJsonBytes, this.memory);
      }
    }
    return undefined;
  }

  async finish(): Promise<string | null> {
    this.memory.passFile();
    if (await this.nextFile()) throw malformed('a second part "file"');
    return this.additionalData;
  }
}

/** @throws ServiceError `payload-too-large`; `invalid-request-body` if the bytes aren't UTF-8. */
async function readText(bytes: AsyncIterable<Buffer>, maxBytes: number, memory: BodyMemory): Promise<string> {
  const turns = new Turns();
  const decoder = new Utf8Decoder();
  let text = '';
  let length = 0;
  try {
    for await (const chunk of bytes) {
      length += chunk.length;
      if (length > maxBytes) throw new ServiceError('payload-too-large');
      await memory.growTo(length);
      for (let at = 0; at < chunk.length; at += STEP_BYTES) {
        if (length > SMALL_TEXT_BYTES && turns.isOver) await turns.next();
        text += decoder.add(chunk.subarray(at, at + STEP_BYTES));
      }
    }
    decoder.end();
  } catch (error) {
    throw error instanceof SyntaxError ? malformed('not UTF-8', error) : error;
  }
  memory.shrinkTo(length);
  return text;
}

async function* limited(bytes: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
  let length = 0;
  for await (const chunk of bytes) {
    length += chunk.length;
    if (length > maxBytes) throw new ServiceError('payload-too-large');
    yield chunk;
  }
}
