import type { IncomingMessage } from 'node:http';
import { trimBlanks } from '../common/text.js';

/** A part of a representation: the offsets of its first and last byte. */
export interface RequestedRange {
  readonly first: number;
  readonly last: number;
}

/**
 * The part of a representation that a GET request asks for with `Range` (RFC 9110, 14.2). Undefined if the whole
 * representation is to be sent, for example if `If-Range` has another entity tag or a date, or `Range` is malformed or
 * asks for several ranges, which a server may ignore.
 *
 * @param length the length of the representation, in bytes.
 * @param etag the strong entity tag of the representation.
 * @returns `unsatisfiable` if the range has no byte of the representation.
 */
export function requestedRange({ method, headers }: IncomingMessage, length: number, etag: string): RequestedRange | 'unsatisfiable' | undefined {
  const ifRange = headers['if-range'];
  if (method !== 'GET' || headers.range === undefined || (ifRange !== undefined && ifRange !== etag)) return undefined;
  const [, from, to] = /^bytes=(\d*)-(\d*)$/i.exec(headers.range) ?? [];
  if (from === undefined || to === undefined || (from === '' && to === '')) return undefined;
  if (from === '') {
    if (Number(to) === 0) return 'unsatisfiable';
    // The last bytes of an empty representation are the whole of it.
    return length === 0 ? undefined : { first: Math.max(0, length - Number(to)), last: length - 1 };
  }
  const first = Number(from);
  if (to !== '' && Number(to) < first) return undefined;
  if (first >= length) return 'unsatisfiable';
  return { first, last: to === '' ? length - 1 : Math.min(Number(to), length - 1) };
}

/** Whether `If-None-Match` (RFC 9110, 13.1.2) lists this entity tag or is `*`, so the client needs no copy. */
export function isCached({ headers }: IncomingMessage, etag: string): boolean {
  const field = headers['if-none-match'];
  if (field === undefined) return false;
  return trimBlanks(field) === '*' || (field.match(/(?:W\/)?"[^"]*"/g) ?? []).some((tag) => tag.replace(/^W\//, '') === etag);
}
