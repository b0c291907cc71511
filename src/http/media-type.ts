import type { IncomingMessage } from 'node:http';
import { parse } from 'content-type';

/** The Content-Type of a request as it was sent; undefined where there is none, or nothing in it. */
export const contentTypeAsSent = ({ headers }: IncomingMessage): string | undefined =>
  headers['content-type'] === '' ? undefined : headers['content-type'];

/** The media type of a request without its parameters, in lower case; empty without one (RFC 9110, 8.3). */
export function mediaType({ headers }: IncomingMessage): string {
  return parse(headers['content-type'] ?? '', { parameters: false }).type.toLowerCase();
}

/** A parameter of the request's media type. */
export function mediaTypeParameter({ headers }: IncomingMessage, name: string): string | undefined {
  return parse(headers['content-type'] ?? '').parameters[name];
}
