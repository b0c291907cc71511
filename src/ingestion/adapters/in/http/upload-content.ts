import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../../../common/service-error.js';
import {
  assertDeclaredJsonLength,
  assertDeclaredLength,
  assertIdentityCoding,
  assertJsonCoding,
} from '../../../../http/admission.js';
import { hasBody } from '../../../../http/exchange.js';
import { mediaType } from '../../../../http/media-type.js';
import type { UploadLimits } from '../../../ingestion.options.js';

/**
 * How much a form may contain beside the file and `additional_data`: delimiters, headers and parts that are skipped. In
 * bytes.
 */
export const FORM_OVERHEAD_BYTES = 1_048_576;

/** The form in which an upload is sent (`Sending the file itself`). */
export type UploadForm = 'json' | 'multipart' | 'bytes';

export function uploadForm(request: IncomingMessage): UploadForm {
  const type = mediaType(request);
  if (type === 'application/json' || (type === '' && !hasBody(request))) return 'json';
  return type === 'multipart/form-data' ? 'multipart' : 'bytes';
}

/** Maximum length of a request of one form, in bytes on the wire. */
export const maxBodyBytes = (form: UploadForm, { maxJsonBytes, maxUploadBytes }: UploadLimits): number =>
  ({ json: maxJsonBytes, bytes: maxUploadBytes, multipart: maxUploadBytes + maxJsonBytes + FORM_OVERHEAD_BYTES })[form];

/**
 * Refuses requests by their headers alone.
 *
 * @throws ServiceError `payload-too-large`, `unsupported-media-type`
 */
export function assertUploadContent(request: IncomingMessage, limits: UploadLimits): void {
  const form = uploadForm(request);
  if (form === 'json') {
    assertDeclaredJsonLength(request, limits.maxJsonBytes);
    assertJsonCoding(request);
    return;
  }
  assertDeclaredLength(request, maxBodyBytes(form, limits));
  if (mediaType(request) === 'application/x-www-form-urlencoded') throw new ServiceError('unsupported-media-type');
  assertIdentityCoding(request);
}
