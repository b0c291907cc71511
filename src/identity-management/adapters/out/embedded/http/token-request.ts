import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../../../../common/service-error.js';
import { trimBlanks } from '../../../../../common/text.js';
import { contentCoding, declaredLength } from '../../../../../http/request-head.js';
import { collect } from '../../../../../http/json-body.js';
import { requestBody } from '../../../../../http/request-body.js';
import { OAuthError } from './oauth-error.js';

const MAX_BODY_BYTES = 4096;
const IDLE_TIMEOUT_MS = 10_000;

/**
 * Reads the parameters of a token request. A parameter without a value counts as omitted (RFC 6749, section 3.2).
 *
 * @throws OAuthError `invalid_request` when the body isn't a well-formed form, is over 4 KiB, repeats a parameter, or
 * has a Content-Encoding other than `identity`.
 * @throws ServiceError `request-timeout`, `client-aborted`.
 */
export async function readTokenRequest(request: IncomingMessage): Promise<ReadonlyMap<string, string>> {
  const mediaType = trimBlanks(request.headers['content-type']?.split(';', 1)[0] ?? '').toLowerCase();
  if (mediaType !== 'application/x-www-form-urlencoded') {
    throw new OAuthError('invalid_request', 'The body must be application/x-www-form-urlencoded.');
  }
  if (contentCoding(request) !== 'identity') {
    throw new OAuthError('invalid_request', 'The body must not have a Content-Encoding.', { status: 415 });
  }
  const parameters = new Map<string, string>();
  for (const [name, value] of pairs((await bodyOf(request)).toString('latin1'))) {
    if (parameters.has(name)) throw new OAuthError('invalid_request', 'A parameter is repeated.');
    parameters.set(name, value);
  }
  return new Map([...parameters].filter(([, value]) => value !== ''));
}

function pairs(form: string): (readonly [string, string])[] {
  try {
    return form
      .split('&')
      .filter((part) => part !== '')
      .map((part) => {
        const [name = '', ...value] = part.split('=');
        return [formDecode(name), formDecode(value.join('='))] as const;
      });
  } catch (error) {
    throw new OAuthError('invalid_request', 'The body is malformed.', { cause: error });
  }
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = new OAuthError('invalid_request', `The body is over ${MAX_BODY_BYTES} bytes.`, { status: 413 });
  if ((declaredLength(request) ?? 0) > MAX_BODY_BYTES) throw tooLarge;
  try {
    return await collect(requestBody(request, { idleTimeoutMs: IDLE_TIMEOUT_MS, maxBytes: MAX_BODY_BYTES }));
  } catch (error) {
    throw error instanceof ServiceError && error.kind === 'payload-too-large' ? tooLarge : error;
  }
}

/**
 * Strictly decodes `application/x-www-form-urlencoded` text (RFC 6749, appendix B).
 *
 * @throws URIError when a percent sign doesn't begin an escape, or the escaped bytes aren't UTF-8.
 */
export const formDecode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));
