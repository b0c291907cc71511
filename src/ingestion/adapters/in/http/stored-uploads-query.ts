import { optional, optionalText, queryReader, type RawQuery, requiredText } from '../../../../http/query.js';
import type { UploadFilter, UploadPosition } from '../../../application/ports/stored-uploads.port.js';
import { UPLOAD_ID } from '../../../domain/layout-names.js';
import { parseTime } from '../../../domain/upload-filter.js';
import { isCustomerId, UPLOAD_KINDS } from '../../../domain/upload.js';

export const DEFAULT_LIMIT = 100;
export const MAX_LIMIT = 1000;

const readList = queryReader({
  customer_id: optionalText(isCustomerId),
  kind: optional((text) => UPLOAD_KINDS.find((kind) => kind === text)),
  from: optional(parseTime),
  to: optional(parseTime),
  limit: optional(parseLimit),
  page_token: optional(decodePageToken),
});

/**
 * A removal refuses parameters that only the list has, because ignoring one would remove more than the client asked
 * for.
 */
const OF_LIST = optional(() => undefined);

const readRemoval = queryReader({
  customer_id: requiredText(isCustomerId),
  before: optional(parseTime),
  kind: OF_LIST,
  from: OF_LIST,
  to: OF_LIST,
  limit: OF_LIST,
  page_token: OF_LIST,
});

export interface UploadListQuery {
  readonly filter: UploadFilter;
  readonly limit: number;
  readonly after: UploadPosition | undefined;
}

/**
 * Reads the query of a list of uploads (`GET /uploads`).
 *
 * @throws ServiceError `invalid-query-parameter`.
 */
export function readUploadListQuery(raw: RawQuery): UploadListQuery {
  const { customer_id: customerId, kind, from, to, limit = DEFAULT_LIMIT, page_token: after } = readList(raw);
  return { filter: { customerId, kind, from, to }, limit, after };
}

/**
 * Reads the query of a removal (`DELETE /uploads`).
 *
 * @throws ServiceError `invalid-query-parameter`, including for a parameter that belongs only to the list of uploads.
 */
export function readUploadRemovalQuery(raw: RawQuery): UploadFilter {
  const { customer_id: customerId, before: to } = readRemoval(raw);
  return { customerId, to };
}

function parseLimit(text: string): number | undefined {
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  return limit >= 1 && limit <= MAX_LIMIT ? limit : undefined;
}

/** Encodes a position in the list of uploads as an opaque text. */
export const encodePageToken = ({ receivedAt, uploadId }: UploadPosition): string =>
  Buffer.from(`${receivedAt.toISOString()}${uploadId}`).toString('base64url');

function decodePageToken(token: string): UploadPosition | undefined {
  const text = Buffer.from(token, 'base64url').toString('latin1');
  const receivedAt = parseTime(text.slice(0, 24));
  const uploadId = text.slice(24);
  if (!receivedAt || (uploadId !== '' && !UPLOAD_ID.test(uploadId))) return undefined;
  const position = { receivedAt, uploadId };
  return encodePageToken(position) === token ? position : undefined;
}
