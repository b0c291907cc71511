import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { GetObjectCommand, PutObjectCommand, type S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { type ByteRange, SHORT_BODY_BYTES, StoreSilentError } from '../bucket.js';
import { wholeBody } from '../whole-body.js';
import { crc32Of } from './checksums.js';
import { REFUSALS } from './conditional-write.js';
import type { DirectAnswer, DirectCommand, DirectRequest } from './direct-requests.js';
import type { S3Connection } from './s3-connection.js';
import { orUndefined } from './s3-errors.js';

type Ending = Pick<DirectRequest, 'abortSignal'>;

export interface FoundObject {
  readonly body: Readable;
  /** In bytes, as the store announces it. */
  readonly length: number | undefined;
  readonly version: string;
  /** See `ReadObject`. */
  readonly ageMs: number;
  /** The CRC32 of the whole object, in base64, if the store knows it and `body` doesn't check it. */
  readonly crc32?: string | undefined;
}

export interface PutInput {
  readonly Bucket: string;
  readonly Key: string;
  readonly Metadata: Readonly<Record<string, string>>;
  readonly IfNoneMatch?: string;
  readonly IfMatch?: string;
}

/** As the SDK's: the pause before the first repeated request is shorter than this, by chance. */
const MAX_PAUSE_MS = 100;
/** The codes of refusals that a repeated request would get as well. */
const FINAL: ReadonlySet<string> = new Set([...REFUSALS, 'InvalidRange']);

/**
 * Requests an object, or a range of it, directly if possible (`DirectRequests`). Undefined if the object is missing.
 *
 * @throws errors of the SDK, such as `InvalidRange` if the range begins after the object's end.
 */
export async function getObject(connection: S3Connection, key: string, range?: ByteRange): Promise<FoundObject | undefined> {
  const Range = range && `bytes=${range.first}-${range.last}`;
  return connection.within((ending) =>
    orUndefined(getDirectly(connection, connection.prefix + key, Range, ending).then((found) => found ?? getBySdk(connection, key, Range, ending))),
  );
}

/** Like `getObject`, but by the SDK, whose body checks the CRC32 of an object of any length. */
export async function getWholeObject(connection: S3Connection, key: string): Promise<FoundObject | undefined> {
  return connection.within((ending) => orUndefined(getBySdk(connection, key, undefined, ending)));
}

/**
 * Writes an object, directly if that is possible (`DirectRequests`) and the object is short.
 *
 * @param client the SDK's client for what can't be sent directly.
 * @throws errors of the SDK.
 */
export async function putObject(
  connection: S3Connection,
  client: S3Client,
  input: PutInput,
  Body: Buffer,
  { abortSignal }: Partial<Ending>,
): Promise<{ readonly ETag?: string | undefined }> {
  const ETag = abortSignal && Body.length <= SHORT_BODY_BYTES ? await putDirectly(connection, input, Body, { abortSignal }) : undefined;
  return ETag === undefined ? client.send(new PutObjectCommand({ ...input, Body }), abortSignal && { abortSignal }) : { ETag };
}

async function getBySdk(connection: S3Connection, key: string, Range: string | undefined, ending: Ending): Promise<FoundObject | undefined> {
  const output = await connection.client.send(new GetObjectCommand({ ...connection.at(key), Range }), ending);
  if (!output.Body) return undefined;
  return { body: output.Body as Readable, length: output.ContentLength, version: output.ETag ?? '', ageMs: connection.watch.ageOf(output.LastModified, output) };
}

/** Resolves to undefined if the SDK must send the request. */
async function getDirectly(connection: S3Connection, key: string, range: string | undefined, { abortSignal }: Ending): Promise<FoundObject | undefined> {
  const answer = await sendDirectly(connection, 'GetObjectCommand', { key, ...(range !== undefined && { headers: { range } }), abortSignal });
  if (!answer) return undefined;
  const { 'content-length': length, 'last-modified': modified, etag = '', 'x-amz-checksum-crc32': crc32, 'x-amz-checksum-type': crcOf } = answer.headers;
  // The CRC32 of an object that was uploaded in parts is that of the parts' CRC32s, and has a hyphen.
  const isOfWhole = answer.statusCode === 200 && crcOf !== 'COMPOSITE' && crc32?.includes('-') === false;
  return {
    body: answer.body,
    length: length === undefined ? undefined : Number(length),
    version: etag,
    ageMs: connection.watch.ageOf(modified === undefined ? undefined : new Date(modified), answer),
    crc32: isOfWhole && connection.direct.hasHeader('GetObjectCommand', 'x-amz-checksum-mode') ? crc32 : undefined,
  };
}

/** Resolves to the ETag, and to undefined if the SDK must send the request. */
async function putDirectly(connection: S3Connection, { Key, Metadata, IfNoneMatch, IfMatch }: PutInput, body: Buffer, { abortSignal }: Ending): Promise<string | undefined> {
  const headers = {
    'content-length': String(body.length),
    ...Object.fromEntries(Object.entries(Metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
    ...(IfNoneMatch !== undefined && { 'if-none-match': IfNoneMatch }),
    ...(IfMatch !== undefined && { 'if-match': IfMatch }),
    ...(connection.direct.hasHeader('PutObjectCommand', 'x-amz-checksum-crc32') && { 'x-amz-checksum-crc32': await crc32Of(body) }),
  };
  const answer = await sendDirectly(connection, 'PutObjectCommand', { key: Key, headers, body, abortSignal });
  answer?.body.resume();
  return answer?.headers.etag;
}

/**
 * Sends a request. Resolves to a successful answer, and to undefined if the SDK must send the request, for the first
 * time or again.
 *
 * @throws S3ServiceException when the store refuses the request for good; StoreSilentError; the reason of the signal.
 */
async function sendDirectly(connection: S3Connection, command: DirectCommand, request: DirectRequest): Promise<DirectAnswer | undefined> {
  const begun = performance.now();
  try {
    const answer = await connection.direct.send(command, request);
    if (!answer) return undefined;
    connection.watch.note(answer, answer);
    if (answer.statusCode === 200 || answer.statusCode === 206) return answer;
    const refusal = await refusalIn(answer);
    if (FINAL.has(refusal.name)) throw refusal;
    if (answer.statusCode === 429 || answer.statusCode >= 500) await delay(Math.random() * MAX_PAUSE_MS);
  } catch (error) {
    const failure = connection.watch.translate(error, performance.now() - begun);
    if (request.abortSignal.aborted || failure instanceof StoreSilentError || failure instanceof S3ServiceException) throw failure;
  }
  connection.onRetry();
  return undefined;
}

/** The error of the SDK for an answer without success. Rejects if the answer breaks off. */
async function refusalIn({ statusCode, body }: DirectAnswer): Promise<S3ServiceException> {
  const text = (await wholeBody(body)).toString();
  const [name = '', message = ''] = ['Code', 'Message'].map((element) => new RegExp(`<${element}>([^<]*)<`).exec(text)?.[1]);
  return new S3ServiceException({ name, message, $fault: 'client', $metadata: { httpStatusCode: statusCode } });
}
