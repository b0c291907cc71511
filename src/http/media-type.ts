import type { IncomingMessage } from 'node:http';
import { parse } from 'content-type';

/** The Content-Type of a request, unchanged; undefined if it is absent or empty. */
export const contentTypeAsSent = ({ headers }: IncomingMessage): string | undefined =>
  headers['content-type'] === '' ? undefined : headers['content-type'];

/** The media type of a request without parameters, in lower case; empty if absent (RFC 9110, section 8.3). */
export function mediaType({ headers }: IncomingMessage): string {
  return parse(headers['content-type'] ?? '', { parameters: false }).type.toLowerCase();
}

/** A parameter of the request's media type. */
export function mediaTypeParameter({ headers }: IncomingMessage, name: string): string | undefined {
  return parse(headers['content-type'] ?? '').parameters[name];
}
