import type { FetchImplementation, JSONWebKeySet } from 'jose';
import { MIB } from '../common/sizes.js';
import { withTimeLimit } from '../common/time-limit.js';

/** The source of an issuer's public keys (RFC 7517): an http(s) URL, or a function for an issuer in this process. */
export type KeySetSource = { readonly url: string } | { readonly load: () => Promise<JSONWebKeySet> };

const MAX_BYTES = MIB;

/**
 * The URL of a key set; a placeholder if the source is a function.
 *
 * @throws TypeError when the source's URL isn't http or https.
 */
export function urlOf(source: KeySetSource): URL {
  if ('load' in source) return new URL('urn:key-set');
  const url = new URL(source.url);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new TypeError('The URL of a key set must be http or https.');
  return url;
}

/**
 * Returns a function that fetches the key set, and rejects if it is over 1 MiB (decoded). From a URL, fetching also
 * fails when its signal aborts; from a function, when it takes longer than `timeoutMs` milliseconds.
 */
export function fetchFrom(source: KeySetSource, timeoutMs: number): FetchImplementation {
  return async (url, init) => bounded('url' in source ? await fetch(url, init) : Response.json(await loaded(source.load, timeoutMs)));
}

const loaded = (load: () => Promise<JSONWebKeySet>, timeoutMs: number): Promise<JSONWebKeySet> =>
  withTimeLimit(timeoutMs, () => load(), () => new Error(`The key set was not loaded within ${timeoutMs} ms.`));

async function bounded(response: Response): Promise<Response> {
  const body = response.body as AsyncIterable<Uint8Array> | null;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new RangeError(`The key set is larger than ${MAX_BYTES} bytes.`);
    chunks.push(chunk);
  }
  return new Response(Buffer.concat(chunks), { status: response.status });
}
