import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { CanActivate } from '@nestjs/common';
import { parse } from 'content-type';
import { ServiceError } from '../common/service-error.js';
import { trimBlanks } from '../common/text.js';

const REG_NAME = "(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+";
const IP_FUTURE = "[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+";
const HOST = new RegExp(`^(?:${REG_NAME}|\\[${IP_FUTURE}\\]|\\[([0-9A-Fa-f:.]+)\\])(?::(\\d*))?$`);
const ABSOLUTE_FORM = /^https?:\/\/([^/?]*)/i;
const SCHEME_AND_AUTHORITY = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;
const MAX_PORT = 65_535;

/**
 * Describes why a request's head is invalid although Node's parser accepts it. Undefined for a valid head. Checks the
 * HTTP version, `Host` and the request target (RFC 9112, section 3.2), and the transfer coding (section 6.1). The text
 * is for the log and quotes nothing from the request.
 */
export function requestHeadDefect(request: IncomingMessage): string | undefined {
  const { httpVersion, headers } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'The HTTP version must be 1.1 or 1.0.';
  const hosts = headerValues(request, 'host');
  if (hosts.length > 1 || (hosts.length === 0 && httpVersion === '1.1')) return 'There must be one Host.';
  if (hosts.length === 1 && !isHost(headers.host ?? '')) return 'Host must be a host name or an address, with an optional port.';
  if (!isTarget(request)) return 'The request target must be a path, or a URL with http or https.';
  const coding = headers['transfer-encoding'];
  if (coding === undefined) return undefined;
  if (httpVersion === '1.0') return 'HTTP/1.0 has no transfer codings.';
  return coding.toLowerCase() === 'chunked' ? undefined : 'The transfer coding must be "chunked".';
}

/**
 * The host and port that the client addressed: from the request target if that is in absolute form, otherwise from
 * `Host` (RFC 9112, section 3.2.2). Undefined if the request has neither.
 */
export const requestAuthority = ({ url = '', headers }: IncomingMessage): string | undefined =>
  url.startsWith('/') ? headers.host : (ABSOLUTE_FORM.exec(url)?.[1] ?? headers.host);

/** The path of a request target, without scheme, host, query and fragment. */
export function targetPath(target: string): string {
  const path = target.startsWith('/') ? target : target.replace(SCHEME_AND_AUTHORITY, '');
  const end = path.search(/[?#]/);
  return end < 0 ? path : path.slice(0, end);
}

/**
 * All values of a header, in the order of their arrival. Node's `headers` keep only the first value of some headers,
 * and join the values of others.
 *
 * @param name the header's name in lower case.
 */
export function headerValues({ rawHeaders }: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const found = rawHeaders[at] ?? '';
    if (found.length === name.length && found.toLowerCase() === name) values.push(rawHeaders[at + 1] ?? '');
  }
  return values;
}

/**
 * Whether a text is `uri-host [ ":" port ]` (RFC 9110, 7.2; RFC 3986, 3.2.2) of an http URL, whose host is never empty.
 * Commas are refused, though RFC 3986 allows them, because some proxies join several `Host` headers with commas.
 */
function isHost(text: string): boolean {
  const match = HOST.exec(text);
  if (!match) return false;
  const [, address, port] = match;
  return (address === undefined || isIPv6(address)) && (port === undefined || Number(port) <= MAX_PORT);
}

/** Whether the request target is valid. The HTTP parser has already refused blanks and control characters. */
function isTarget({ method, url = '' }: IncomingMessage): boolean {
  if (url.includes('#')) return false;
  // CONNECT and `*` match no route, so such requests get a 404.
  if (method === 'CONNECT' || url === '*' || url.startsWith('/')) return true;
  const authority = ABSOLUTE_FORM.exec(url)?.[1];
  return authority !== undefined && isHost(authority);
}

/** The Content-Length of a request, in bytes; undefined without that header. */
export const declaredLength = ({ headers }: IncomingMessage): number | undefined =>
  headers['content-length'] === undefined ? undefined : Number(headers['content-length']);

/** Whether the request's framing announces a body (RFC 9112, section 6.3). A chunked body may still be empty. */
export const hasBody = (request: IncomingMessage): boolean =>
  request.headers['transfer-encoding'] !== undefined || (declaredLength(request) ?? 0) > 0;

/** The media type in the Content-Type of a request, without parameters, in lower case; empty without that header. */
export function mediaType({ headers }: IncomingMessage): string {
  return parse(headers['content-type'] ?? '', { parameters: false }).type.toLowerCase();
}

/** Whether a request's body is JSON by its media type. Also true without a body and a Content-Type. */
export const isJsonType = (request: IncomingMessage, type = mediaType(request)): boolean =>
  type === 'application/json' || (type === '' && !hasBody(request));

/** A parameter of the media type in a request's Content-Type; undefined if it is absent. */
export function mediaTypeParameter({ headers }: IncomingMessage, name: string): string | undefined {
  return parse(headers['content-type'] ?? '').parameters[name];
}

/** The Content-Encoding of a request in lower case; `identity` if it is absent or empty (RFC 9110, section 8.4). */
export function contentCoding({ headers }: IncomingMessage): string {
  const coding = headers['content-encoding'];
  return coding === undefined ? 'identity' : trimBlanks(coding).toLowerCase() || 'identity';
}

/** @throws ServiceError `payload-too-large` when the declared Content-Length is over `maxBytes`. */
export function assertDeclaredLength(request: IncomingMessage, maxBytes: number): void {
  if ((declaredLength(request) ?? 0) > maxBytes) throw new ServiceError('payload-too-large');
}

/**
 * Asks `guard` about requests with a header, and admits all others.
 *
 * @param header the header's name in lower case.
 */
export const onlyWithHeader = (header: string, guard: CanActivate): CanActivate => ({
  canActivate: (context) => context.switchToHttp().getRequest<IncomingMessage>().headers[header] === undefined || guard.canActivate(context),
});
