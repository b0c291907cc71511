import type { IncomingMessage } from 'node:http';
import { isUnicodeText } from '../../../../common/text.js';
import { ServiceError } from '../../../../common/service-error.js';
import { Turns } from '../../../../common/turns.js';
import { Utf8Decoder } from '../../../../common/utf8.js';
import { BodyMemory } from '../../../../http/body-memory.js';
import { mediaTypeParameter } from '../../../../http/request-head.js';
import { type ExpectedDigest, verified } from '../../../../http/digest-fields.js';
import { arrivedJson, type JsonObject, openJson } from '../../../../http/json-body.js';
import { requestBody } from '../../../../http/request-body.js';
import type { UploadLoadDataCommand } from '../../../application/upload-load-data.use-case.js';
import type { UploadLimits } from '../../../ingestion.options.js';
import { type MultipartPart, MultipartReader } from './multipart-reader.js';
import { DEFAULT_CONTENT_TYPE, type UploadHead } from './upload-head.js';

/**
 * The body of an upload request. The rest of a file is read while it is stored, and the parts of a form after the file
 * by `additionalData`.
 */
export interface UploadBody extends Pick<UploadLoadDataCommand, 'file' | 'additionalData'> {
  /**
   * Releases the body's memory and decoder. Undefined only for a body that has neither. Must be called when the upload
   * has ended, whether or not it succeeded.
   */
  readonly end?: () => void;
}

/**
 * A JSON body with a member `file` is refused: a client that serializes a `Blob` as JSON sends `file` without the
 * bytes, and must send a form instead.
 */
const JSON_MEMBERS: ReadonlySet<string> = new Set(['additional_data', 'file']);
const SMALL_TEXT_BYTES = 16 * 1024;
const STEP_BYTES = 64 * 1024;
/** The longest boundary of a form, in characters (RFC 2046, section 5.1.1). */
const MAX_BOUNDARY_LENGTH = 70;

const malformed = (message: string, cause?: unknown): ServiceError => new ServiceError('invalid-request-body', message, { cause });

/**
 * Opens the body of an upload request. A body without a file is read to its end. JSON with other members than
 * `additional_data` is stored as a file, too.
 *
 * @throws ServiceError `invalid-request-body`, `digest-mismatch`, `payload-too-large`, `request-timeout`,
 *   `client-aborted`; reading the file or calling `additionalData` may throw the same errors.
 */
export function openUploadBody(request: IncomingMessage, head: UploadHead, limits: UploadLimits): UploadBody | Promise<UploadBody> {
  switch (head.form) {
    case 'json':
      return openJsonUpload(request, head, limits);
    case 'bytes':
      return openBytes(request, head, limits);
    case 'multipart':
      return withMemory(request, (memory) => openForm(request, head, limits, memory));
  }
}

/**
 * Opens a body. A long one takes memory from the process's budget while it is read. A long `additional_data` takes more
 * for the index line, when `additionalData` is called.
 */
async function withMemory(request: IncomingMessage, open: (memory: BodyMemory) => Promise<UploadBody>): Promise<UploadBody> {
  const memory = new BodyMemory(request);
  try {
    const { file, additionalData, end } = await open(memory);
    const withLineMemory = async (): Promise<string | null> => {
      const text = await additionalData();
      if (text !== null) await memory.growForLine(text);
      return text;
    };
    const endAll = (): void => {
      end?.();
      memory.release();
    };
    return { file, additionalData: withLineMemory, end: endAll };
  } catch (error) {
    memory.release();
    throw error;
  }
}

function openJsonUpload(request: IncomingMessage, head: UploadHead, { idleTimeoutMs, maxUploadBytes }: UploadLimits): Promise<UploadBody> {
  const limits = { idleTimeoutMs, maxBytes: head.maxBodyBytes, digests: head.contentDigests };
  const small = arrivedJson(request, limits, JSON_MEMBERS);
  if (small) return jsonUpload(head, small, maxUploadBytes);
  return withMemory(request, async (memory) => jsonUpload(head, await openJson(request, { ...limits, memory }, JSON_MEMBERS), maxUploadBytes));
}

async function jsonUpload({ contentType, fileDigests }: UploadHead, object: JsonObject | undefined, maxFileBytes: number): Promise<UploadBody> {
  if (object?.bytes) return { file: fileOf(contentType, limited(object.bytes, maxFileBytes), fileDigests), additionalData: () => additionalDataOf(object), end: object.end };
  const additionalData = await additionalDataOf(object);
  return { file: null, additionalData: () => additionalData };
}

function openBytes(request: IncomingMessage, head: UploadHead, { idleTimeoutMs }: UploadLimits): UploadBody {
  const { contentType, maxBodyBytes, fileDigests, contentDigests } = head;
  const bytes = requestBody(request, { idleTimeoutMs, maxBytes: maxBodyBytes });
  // The body is the file itself, so the digests of the file and those of the request's content are all verified on it.
  const file = fileOf(contentType, bytes, [...fileDigests, ...contentDigests]);
  return { file, additionalData: () => null };
}

async function additionalDataOf(object: JsonObject | undefined): Promise<string | null> {
  if (object?.members.has('file')) throw malformed('a member "file"');
  const value = object?.members.get('additional_data') ?? null;
  if (value !== null && (typeof value !== 'string' || !(await isUnicodeText(value)))) throw malformed('additional_data is not Unicode text');
  return value;
}

/**
 * sha-256 digests of the file are compared after the store has computed the file's sha-256; its other digests are
 * verified while the bytes are read.
 */
function fileOf(contentType: string, bytes: AsyncGenerator<Buffer, void, undefined>, digests: readonly ExpectedDigest[]): UploadBody['file'] {
  const isSha256 = ({ algorithm }: ExpectedDigest): boolean => algorithm === 'sha-256';
  const others = digests.filter((digest) => !isSha256(digest));
  return {
    contentType,
    bytes: others.length > 0 ? verified(bytes, others) : bytes,
    expectedSha256: digests.filter(isSha256).map(({ value }) => value.toString('hex')),
  };
}

async function openForm(request: IncomingMessage, head: UploadHead, limits: UploadLimits, memory: BodyMemory): Promise<UploadBody> {
  const boundary = mediaTypeParameter(request, 'boundary');
  if (!boundary || boundary.length > MAX_BOUNDARY_LENGTH) throw malformed('no boundary');
  const { maxBodyBytes, fileDigests, contentDigests } = head;
  const body = requestBody(request, { idleTimeoutMs: limits.idleTimeoutMs, maxBytes: maxBodyBytes, digests: contentDigests, memory });
  const form = new UploadFormReader(new MultipartReader(body, boundary), limits, memory);
  const file = await form.nextFile();
  if (!file) throw malformed('no part "file"');
  const contentType = file.contentType ?? DEFAULT_CONTENT_TYPE;
  return {
    file: fileOf(contentType, limited(file.bytes, limits.maxUploadBytes), fileDigests),
    additionalData: () => form.finish(),
  };
}

class UploadFormReader {
  private additionalData: string | null = null;

  constructor(
    private readonly parts: MultipartReader,
    private readonly limits: UploadLimits,
    private readonly memory: BodyMemory,
  ) {}

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
