import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { ServiceError } from '../common/service-error.js';
import { hasBody } from './exchange.js';
import { requestBody, type RequestBodyLimits } from './request-body.js';

const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress };
/** What a compressed body may be longer than what is in it. */
export const CODING_OVERHEAD_BYTES = 65_536;

const MAX_DEPTH = 128;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

type Coding = keyof typeof DECODERS;

export const isJsonCoding = (coding: string): coding is Coding => Object.hasOwn(DECODERS, coding);

/** The content coding of a request, in lower case; `identity` without one (RFC 9110, 8.4). */
export const contentCoding = ({ headers }: IncomingMessage): string =>
  headers['content-encoding']?.trim().toLowerCase().replace(/^$/, 'identity') ?? 'identity';

/**
 * The JSON value of a request's body, undefined for an empty one; `maxBytes` counts what is left after decoding.
 *
 * @throws ServiceError `invalid-request-body` when it is no JSON, deeper than 128 levels, no UTF-8, or not in its Content-Encoding;
 * `payload-too-large`; `request-timeout`; `client-aborted`; `digest-mismatch`.
 */
export async function readJson(request: IncomingMessage, limits: RequestBodyLimits): Promise<unknown> {
  if (!hasBody(request) && !limits.digests?.length) return undefined;
  const coding = contentCoding(request);
  const bytes = isJsonCoding(coding) ? await decoded(request, coding, limits) : await collect(requestBody(request, limits));
  return bytes.length === 0 ? undefined : parseJson(bytes);
}

async function decoded(request: IncomingMessage, coding: Coding, limits: RequestBodyLimits): Promise<Buffer> {
  const encoded = requestBody(request, { ...limits, maxBytes: limits.maxBytes + CODING_OVERHEAD_BYTES });
  let result: Buffer | undefined;
  try {
    await pipeline(encoded, DECODERS[coding](), async (bytes: AsyncIterable<Buffer>) => {
      result = await collect(bytes, limits.maxBytes);
    });
  } catch (error) {
    throw error instanceof ServiceError ? error : new ServiceError('invalid-request-body', coding, { cause: error });
  }
  return result ?? Buffer.alloc(0);
}

/** All bytes of a source as one; `payload-too-large` over the limit. */
export async function collect(source: AsyncIterable<Buffer>, maxBytes = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of source) {
    length += chunk.length;
    if (length > maxBytes) throw new ServiceError('payload-too-large');
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, length);
}

/** Whether lists and objects stand in each other deeper than allowed: each level would cost the parser memory. */
function isDeep(bytes: Buffer): boolean {
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = endOfText(bytes, at);
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth += 1;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    if (depth > MAX_DEPTH) return true;
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

function parseJson(bytes: Buffer): unknown {
  if (isDeep(bytes)) throw new ServiceError('invalid-request-body', `deeper than ${MAX_DEPTH} levels`);
  try {
    return JSON.parse(decodeText(bytes).replace(/^\ufeff/, ''));
  } catch (error) {
    throw new ServiceError('invalid-request-body', 'not JSON', { cause: error });
  }
}

/**
 * Text as it stands, a byte order mark included.
 *
 * @throws ServiceError `invalid-request-body` when it is no UTF-8.
 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new ServiceError('invalid-request-body', 'not UTF-8', { cause: error });
  }
}
