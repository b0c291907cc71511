import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { type JsonMember, OTHER_VALUE } from '../common/json-members.js';
import { JsonReader, MAX_JSON_DEPTH } from '../common/json-reader.js';
import { joined } from '../common/joined.js';
import { FREE_BYTES } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';
import { behindHead, readHead } from '../common/stream-head.js';
import { Turns } from '../common/turns.js';
import { BodyMemory } from './body-memory.js';
import { decodingSlots } from './decoding-slots.js';
import { assertDigests } from './digest-fields.js';
import { exchangeOf } from './exchange.js';
import { assertDeclaredLength, contentCoding, declaredLength, hasBody } from './request-head.js';
import { requestBody, type RequestBodyLimits } from './request-body.js';

const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress };
/** A compressed body may be 64 KiB over the limit for its decoded content: compression can lengthen content. */
const CODING_OVERHEAD_BYTES = 65_536;

const SMALL_BODY_BYTES = 16 * 1024;
const STEP_BYTES = 16 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

type Coding = keyof typeof DECODERS;
type Chunks = AsyncGenerator<Buffer, void, undefined>;

const isJsonCoding = (coding: string): coding is Coding => Object.hasOwn(DECODERS, coding);

/**
 * Checks the Content-Length and Content-Encoding of a JSON body.
 *
 * @throws ServiceError `payload-too-large`; `unsupported-media-type` for an unknown Content-Encoding.
 */
export function assertJsonContent(request: IncomingMessage, maxBytes: number): void {
  const coding = contentCoding(request);
  assertDeclaredLength(request, coding === 'identity' ? maxBytes : maxBytes + CODING_OVERHEAD_BYTES);
  if (coding !== 'identity' && !isJsonCoding(coding)) throw new ServiceError('unsupported-media-type');
}

export interface JsonLimits extends RequestBodyLimits {
  readonly memory: BodyMemory;
}

export interface JsonObject {
  /** The wanted members of the object. May be incomplete until `bytes` has been read to the end. */
  readonly members: ReadonlyMap<string, JsonMember>;
  /** The decoded body; undefined if the object has only wanted members. Reading throws the errors of `openJson`. */
  readonly bytes: Chunks | undefined;
  /** Must be called if `bytes` isn't read to the end: another body may wait for this one's slot (`DecodingSlots`). */
  readonly end: () => void;
}

/**
 * Reads the JSON object in a request's body; undefined for an empty body. Must be called after `assertJsonContent`,
 * because an unknown Content-Encoding would count as none here, and after `arrivedJson` has returned undefined. The
 * rest of a long body (over 16 KiB, or in many chunks) may be read only while the caller reads `bytes` of the result. A
 * long body is counted in `limits.memory`, because the caller may keep it.
 *
 * @throws ServiceError `invalid-request-body` when the body isn't a JSON object, is nested deeper than 128 levels,
 * isn't UTF-8, or doesn't match its Content-Encoding; `payload-too-large`; `request-timeout`; `client-aborted`;
 * `digest-mismatch`. BodyAlreadyReadError.
 */
export async function openJson(
  request: IncomingMessage,
  limits: JsonLimits,
  wanted: ReadonlySet<string>,
): Promise<JsonObject | undefined> {
  if (!hasBody(request) && !limits.digests?.length) return undefined;
  const coding = contentCoding(request);
  const body = isJsonCoding(coding) ? decodedBody(request, coding, limits) : requestBody(request, limits);
  const head = await readHead(body, SMALL_BODY_BYTES);
  if (head.rest) return openLarge(behindHead(head), () => void body.return(), wanted, limits.memory);
  const bytes = joined(head.chunks);
  return bytes.length === 0 ? undefined : parseSmall(bytes, wanted);
}

/**
 * Returns the JSON object in a request's body without waiting, if the body is small (1 byte to 16 KiB), has no
 * Content-Encoding and has arrived completely. Otherwise returns undefined and reads nothing. The same if the client
 * waits for `100 Continue`, or if other code has begun to read the body.
 *
 * @throws ServiceError `invalid-request-body`, `payload-too-large`, `digest-mismatch`.
 */
export function arrivedJson(request: IncomingMessage, { maxBytes, digests = [] }: RequestBodyLimits, wanted: ReadonlySet<string>): JsonObject | undefined {
  const { readableLength: length, readableDidRead: isTouched } = request;
  // Node calls the handlers before it sets `request.complete`, so a body of the declared length counts as complete too.
  if (isTouched || length === 0 || length > SMALL_BODY_BYTES || !(request.complete || length === declaredLength(request))) return undefined;
  const exchange = exchangeOf(request);
  // `openJson` sends the `100 Continue` that a client awaits. An answer without it would make Node close the
  // connection.
  if (exchange?.awaitsContinue || request.headers['content-encoding'] !== undefined) return undefined;
  if (length > maxBytes) throw new ServiceError('payload-too-large');
  // `read` gets the length, because without an argument it returns only the first chunk from Node 26 on.
  const bytes = request.read(length) as Buffer;
  request.resume();
  if (exchange) exchange.isRead = true;
  if (digests.length > 0) assertDigests(bytes, digests);
  return parseSmall(bytes, wanted);
}

/**
 * Reads the JSON object in a request's body to the end. Resolves to the wanted members; undefined for an empty body.
 *
 * @throws errors of `openJson`.
 */
export async function readJson(
  request: IncomingMessage,
  limits: RequestBodyLimits,
  wanted: ReadonlySet<string>,
): Promise<ReadonlyMap<string, JsonMember> | undefined> {
  const arrived = arrivedJson(request, limits, wanted);
  if (arrived) return arrived.members;
  const memory = new BodyMemory(request);
  try {
    const object = await openJson(request, { ...limits, memory }, wanted);
    while (object?.bytes && !(await object.bytes.next()).done);
    return object?.members;
  } finally {
    memory.release();
  }
}

async function openLarge(body: Chunks, end: () => void, wanted: ReadonlySet<string>, memory: BodyMemory): Promise<JsonObject> {
  const reader = new JsonReader(wanted);
  const rest = checkedBody(body, reader, memory);
  const chunks: Buffer[] = [];
  while (!reader.hasOtherMembers) {
    const next = await rest.next();
    if (next.done) return { members: reader.members, bytes: undefined, end: nothingToEnd };
    chunks.push(next.value);
  }
  return { members: reader.members, bytes: behindHead({ chunks, rest }), end };
}

/** A defect of the JSON is thrown only after the last byte, so that `payload-too-large` takes precedence. */
async function* checkedBody(body: Chunks, reader: JsonReader, memory: BodyMemory): Chunks {
  const turns = new Turns();
  let length = 0;
  let defect: unknown;
  for await (const chunk of body) {
    length += chunk.length;
    await memory.growTo(length);
    for (let at = 0; at < chunk.length && !defect; at += STEP_BYTES) {
      if (turns.isOver) await turns.next();
      defect = defectOf(() => { reader.add(chunk.subarray(at, at + STEP_BYTES)); });
    }
    if (!defect) yield chunk;
  }
  defect ??= defectOf(() => { reader.end(); });
  if (defect) throw notJson(defect);
  if (!reader.isObject) throw notAnObject();
}

function defectOf(work: () => void): SyntaxError | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return error;
    throw error;
  }
}

const notJson = (cause: unknown): ServiceError => new ServiceError('invalid-request-body', 'not JSON', { cause });
const notAnObject = (): ServiceError => new ServiceError('invalid-request-body', 'not an object');

function parseSmall(bytes: Buffer, wanted: ReadonlySet<string>): JsonObject {
  if (bytes.length > MAX_JSON_DEPTH && isDeep(bytes)) throw new ServiceError('invalid-request-body', `deeper than ${MAX_JSON_DEPTH} levels`);
  if (!isUtf8(bytes)) throw new ServiceError('invalid-request-body', 'not UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString().replace(/^\ufeff/, ''));
  } catch (error) {
    throw notJson(error);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw notAnObject();
  const members = new Map<string, JsonMember>();
  let hasOthers = false;
  for (const [name, member] of Object.entries(value)) {
    if (wanted.has(name)) members.set(name, toMember(member));
    else hasOthers = true;
  }
  return { members, bytes: hasOthers ? behindHead({ chunks: [bytes], rest: undefined }) : undefined, end: nothingToEnd };
}

const nothingToEnd = (): void => undefined;

function toMember(value: unknown): JsonMember {
  if (typeof value === 'string' || value === null) return value;
  if (!Array.isArray(value)) return OTHER_VALUE;
  const texts = new Set<string>();
  for (const item of value as unknown[]) {
    if (typeof item !== 'string') return OTHER_VALUE;
    texts.add(item);
  }
  return [...texts];
}

function decodedBody(request: IncomingMessage, coding: Coding, limits: RequestBodyLimits): Chunks {
  const encoded = requestBody(request, { ...limits, maxBytes: limits.maxBytes + CODING_OVERHEAD_BYTES });
  return decoded(encoded, coding, limits.maxBytes, request.socket);
}

async function* decoded(encoded: Chunks, coding: Coding, maxBytes: number, connection: Socket): Chunks {
  // A short body is read completely before it takes a slot, so that a slow client holds none.
  const head = await readHead(encoded, FREE_BYTES);
  const slots = head.rest ? decodingSlots.arriving : decodingSlots.arrived;
  const endTurn = await slots.take(connection).catch((error: unknown) => {
    void encoded.return();
    throw error;
  });
  const decoder = DECODERS[coding]();
  let encodedBytes = 0;
  async function* counted(): Chunks {
    for await (const chunk of behindHead(head)) {
      encodedBytes += chunk.length;
      yield chunk;
    }
  }
  const feeding = pipeline(counted(), decoder);
  // Reading the decoder throws the pipeline's error too. Without this handler, the error would count as unhandled.
  feeding.catch(() => undefined);
  try {
    let bytes = 0;
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw new ServiceError('payload-too-large');
      yield chunk;
    }
    // A decoder ignores bytes after the end of the coded stream. A body with such bytes is refused.
    if (decoder.bytesWritten < encodedBytes) throw new Error('Bytes follow the end of the compressed stream.');
    await feeding;
  } catch (error) {
    throw error instanceof ServiceError ? error : new ServiceError('invalid-request-body', `The body isn't a ${coding} stream.`, { cause: error });
  } finally {
    endTurn();
    decoder.destroy();
    // The end of reading the request isn't awaited, because it may stay pending until the client sends more bytes.
    void encoded.return();
  }
}

/**
 * Reads all bytes of a source into one buffer.
 *
 * @throws ServiceError `payload-too-large` when the source has more than `maxBytes` bytes.
 */
export async function collect(source: AsyncIterable<Buffer>, maxBytes = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of source) {
    length += chunk.length;
    if (length > maxBytes) throw new ServiceError('payload-too-large');
    chunks.push(chunk);
  }
  return joined(chunks);
}

/** Whether JSON is nested deeper than 128 levels. `JSON.parse` would take memory for each level. */
function isDeep(bytes: Buffer): boolean {
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = endOfText(bytes, at);
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth += 1;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    if (depth > MAX_JSON_DEPTH) return true;
  }
  return false;
}

function endOfText(bytes: Buffer, begin: number): number {
  for (let end = bytes.indexOf(QUOTE, begin + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let escapes = 0;
    while (bytes[end - escapes - 1] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return bytes.length;
}
