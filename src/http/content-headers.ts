import type { IncomingMessage } from 'node:http';
import { parse } from 'content-type';
import { ServiceError } from '../common/service-error.js';

/** The Content-Length of a request, in bytes; undefined without that header. */
export const declaredLength = ({ headers }: IncomingMessage): number | undefined =>
  headers['content-length'] === undefined ? undefined : Number(headers['content-length']);

/** Whether the request's framing announces a body (RFC 9112, section 6.3). A chunked body may still be empty. */
export const hasBody = (request: IncomingMessage): boolean =>
  request.headers['transfer-encoding'] !== undefined || (declaredLength(request) ?? 0) > 0;

/** The Content-Type of a request, unchanged; undefined if it is absent or empty. */
export const contentTypeAsSent = ({ headers }: IncomingMessage): string | undefined =>
  headers['content-type'] === '' ? undefined : headers['content-type'];

/**
 * The media type of a request without parameters, in lower case; empty if the header is absent (RFC 9110, section 8.3).
 */
export function mediaType({ headers }: IncomingMessage): string {
  return parse(headers['content-type'] ?? '', { parameters: false }).type.toLowerCase();
}

/** Whether a request's media type is that of JSON. A request without a body may omit its Content-Type. */
export const isJsonType = (request: IncomingMessage, type = mediaType(request)): boolean =>
  type === 'application/json' || (type === '' && !hasBody(request));

/** A parameter of the request's media type; undefined if the parameter is absent. */
export function mediaTypeParameter({ headers }: IncomingMessage, name: string): string | undefined {
  return parse(headers['content-type'] ?? '').parameters[name];
}

/** The content coding of a request in lower case; `identity` if the header is absent (RFC 9110, section 8.4). */
export const contentCoding = ({ headers }: IncomingMessage): string =>
  headers['content-encoding']?.trim().toLowerCase().replace(/^$/, 'identity') ?? 'identity';

/** @throws ServiceError `payload-too-large` when the declared Content-Length is over `maxBytes`. */
export function assertDeclaredLength(request: IncomingMessage, maxBytes: number): void {
  if ((declaredLength(request) ?? 0) > maxBytes) throw new ServiceError('payload-too-large');
}
