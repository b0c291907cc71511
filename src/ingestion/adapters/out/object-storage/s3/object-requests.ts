import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { GetObjectCommand, PutObjectCommand, type S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { type ByteRange, SHORT_BODY_BYTES, StoreSilentError } from '../bucket.js';
import { wholeBody } from '../whole-body.js';
import { crc32Of } from './checksums.js';
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
const MISSING = Symbol('missing');

/**
 * Requests an object, or a range of it, directly if possible (`DirectRequests`). Undefined if the object is missing.
 *
 * @throws errors of the SDK, such as `InvalidRange` if the range begins after the object's end.
 */
export async function getObject(connection: S3Connection, key: string, range?: ByteRange): Promise<FoundObject | undefined> {
  const Range = range && `bytes=${range.first}-${range.last}`;
  return connection.within(async (ending) => {
    const found = await getDirectly(connection, connection.prefix + key, Range, ending);
    if (found === MISSING) return undefined;
    return found ?? getBySdk(connection, key, Range, ending);
  });
}

/** Like `getObject`, but by the SDK, whose body checks the CRC32 of an object of any length. */
export async function getWholeObject(connection: S3Connection, key: string): Promise<FoundObject | undefined> {
  return connection.within((ending) => getBySdk(connection, key, undefined, ending));
}

/**
 * Writes an object, directly if that is possible (`DirectRequests`) and the object is short.
 *
 * @param client the SDK's client for what can't be sent directly.
 * @throws errors of the SDK. `PreconditionFailed` has no message of the store.
 */
export async function putObject(
  connection: S3Connection,
  client: S3Client,
  input: PutInput,
  Body: Buffer,
  ending: Partial<Ending>,
): Promise<{ readonly ETag?: string | undefined }> {
  const ETag = ending.abortSignal && Body.length <= SHORT_BODY_BYTES ? await putDirectly(connection, input, Body, { abortSignal: ending.abortSignal }) : undefined;
  return ETag === undefined ? client.send(new PutObjectCommand({ ...input, Body }), ending) : { ETag };
}

async function getBySdk(connection: S3Connection, key: string, Range: string | undefined, ending: Ending): Promise<FoundObject | undefined> {
  const output = await orUndefined(connection.client.send(new GetObjectCommand({ ...connection.at(key), Range }), ending));
  if (!output?.Body) return undefined;
  return { body: output.Body as Readable, length: output.ContentLength, version: output.ETag ?? '', ageMs: connection.watch.ageOf(output.LastModified, output) };
}

async function getDirectly(connection: S3Connection, key: string, range: string | undefined, { abortSignal }: Ending): Promise<FoundObject | typeof MISSING | undefined> {
  const answer = await sendDirectly(connection, 'GetObjectCommand', { key, ...(range !== undefined && { headers: { range } }), abortSignal });
  if (!answer) return undefined;
  const { statusCode, headers, body } = answer;
  if (statusCode === 200 || statusCode === 206) {
    const { 'content-length': length, 'last-modified': modified, etag = '', 'x-amz-checksum-crc32': crc32, 'x-amz-checksum-type': crcOf } = headers;
    // The CRC32 of an object that was uploaded in parts is that of the parts' CRC32s, and has a hyphen.
    const isOfWhole = statusCode === 200 && crcOf !== 'COMPOSITE' && crc32?.includes('-') === false;
    const ageMs = connection.watch.ageOf(modified === undefined ? undefined : new Date(modified), answer);
    return { body, length: length === undefined ? undefined : Number(length), version: etag, ageMs, crc32: isOfWhole ? crc32 : undefined };
  }
  // Another 404 is that of a missing bucket.
  if (statusCode === 404 && (await reasonOf(body)).includes('<Code>NoSuchKey</Code>')) return MISSING;
  await giveUp(connection, answer);
  return undefined;
}

/** Resolves to the ETag, and to undefined if the SDK must send the request. */
async function putDirectly(connection: S3Connection, { Key, Metadata, IfNoneMatch, IfMatch }: PutInput, body: Buffer, { abortSignal }: Ending): Promise<string | undefined> {
  const headers = {
    'content-length': String(body.length),
    ...Object.fromEntries(Object.entries(Metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
    ...(IfNoneMatch !== undefined && { 'if-none-match': IfNoneMatch }),
    ...(IfMatch !== undefined && { 'if-match': IfMatch }),
    ...(connection.direct.hasCrc32('PutObjectCommand') && { 'x-amz-checksum-crc32': await crc32Of(body) }),
  };
  const answer = await sendDirectly(connection, 'PutObjectCommand', { key: Key, headers, body, abortSignal });
  if (!answer) return undefined;
  if (answer.statusCode === 200 && answer.headers.etag !== undefined) {
    answer.body.resume();
    return answer.headers.etag;
  }
  if (answer.statusCode === 412) {
    answer.body.resume();
    throw new S3ServiceException({ name: 'PreconditionFailed', $fault: 'client', $metadata: { httpStatusCode: 412 } });
  }
  await giveUp(connection, answer);
  return undefined;
}

/** Sends a request. Resolves to undefined if the SDK must send it, also after a failure of the connection. */
async function sendDirectly(connection: S3Connection, command: DirectCommand, request: DirectRequest): Promise<DirectAnswer | undefined> {
  const begun = performance.now();
  try {
    const answer = await connection.direct.send(command, request);
    if (answer) connection.watch.note(answer, answer);
    return answer;
  } catch (error) {
    const failure = connection.watch.translate(error, performance.now() - begun);
    if (request.abortSignal.aborted || failure instanceof StoreSilentError) throw failure;
    connection.onRetry();
    return undefined;
  }
}

/** The body of an answer without success; empty if it breaks off, so that the SDK asks again. */
const reasonOf = (body: Readable): Promise<Buffer> => wholeBody(body).catch(() => Buffer.alloc(0));

/** Leaves a request to the SDK, after an answer that the SDK must handle. */
async function giveUp(connection: S3Connection, { statusCode, body }: DirectAnswer): Promise<void> {
  body.destroy();
  connection.onRetry();
  if (statusCode === 429 || statusCode >= 500) await delay(Math.random() * MAX_PAUSE_MS);
}
