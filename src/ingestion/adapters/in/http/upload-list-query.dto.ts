import type { IncomingMessage } from 'node:http';
import { IsIn, IsInt, IsOptional, Max, Min } from 'class-validator';
import { ServiceError } from '../../../../common/service-error.js';
import { RawQuery, Satisfies, validQuery } from '../../../../http/query.js';
import type { UploadFilter, UploadPosition } from '../../../application/ports/stored-uploads.port.js';
import { UPLOAD_ID } from '../../../domain/layout-names.js';
import { parseTime } from '../../../domain/upload-filter.js';
import { isCustomerId, UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;

const isTime = (value: unknown): boolean => value instanceof Date;

/** The query parameters of the list of uploads. */
class UploadListQueryDto {
  @IsOptional()
  @Satisfies('isCustomerId', isCustomerId)
  readonly customer_id?: string;

  @IsOptional()
  @IsIn(UPLOAD_KINDS)
  readonly kind?: UploadKind;

  @IsOptional()
  @Satisfies('isTime', isTime)
  readonly from?: Date;

  @IsOptional()
  @Satisfies('isTime', isTime)
  readonly to?: Date;

  @IsInt()
  @Min(1)
  @Max(MAX_LIMIT)
  readonly limit!: number;

  @IsOptional()
  @Satisfies('isPageToken', (value) => value !== INVALID)
  readonly page_token?: UploadPosition;
}

/**
 * The query parameters of `DELETE /uploads`, which removes all uploads of a customer, or those received before a time.
 */
class UploadRemovalQueryDto {
  @Satisfies('isCustomerId', isCustomerId)
  readonly customer_id!: string;

  @IsOptional()
  @Satisfies('isTime', isTime)
  readonly before?: Date;
}

/** The parsed parameters of a request for a list of uploads. */
export interface UploadListQuery {
  readonly filter: UploadFilter;
  readonly limit: number;
  readonly after: UploadPosition | undefined;
}

/**
 * Reads the query of a list of uploads (`GET /uploads`).
 *
 * @throws ServiceError `invalid-query-parameter` if a parameter is repeated or invalid.
 */
export function readUploadListQuery(request: IncomingMessage): UploadListQuery {
  const raw = new RawQuery(request);
  const query = validQuery(
    Object.assign(new UploadListQueryDto(), {
      customer_id: optional(raw, 'customer_id', (text) => text),
      kind: optional(raw, 'kind', (text) => text),
      from: optional(raw, 'from', toTime),
      to: optional(raw, 'to', toTime),
      limit: optional(raw, 'limit', (text) => (/^\d{1,4}$/.test(text) ? Number(text) : INVALID)) ?? DEFAULT_LIMIT,
      page_token: optional(raw, 'page_token', (text) => decodePageToken(text) ?? INVALID),
    }) as UploadListQueryDto,
  );
  const { customer_id: customerId, kind, from, to, limit, page_token: after } = query;
  return { filter: { customerId, kind, from, to }, limit, after };
}

/**
 * Reads the query of a removal (`DELETE /uploads`).
 *
 * @throws ServiceError `invalid-query-parameter` if a parameter is missing, repeated or invalid, or belongs only to the
 * list of uploads.
 */
export function readUploadRemovalQuery(request: IncomingMessage): UploadFilter {
  const raw = new RawQuery(request);
  // These parameters belong to the list of uploads. If a removal ignored one of them, it would remove more than the
  // client asked for.
  for (const name of ['kind', 'from', 'to', 'limit', 'page_token']) if (raw.values(name)?.length !== 0) throw new ServiceError('invalid-query-parameter', name);
  const { customer_id: customerId, before: to } = validQuery(
    Object.assign(new UploadRemovalQueryDto(), {
      customer_id: raw.single('customer_id'),
      before: optional(raw, 'before', toTime),
    }) as UploadRemovalQueryDto,
  );
  return { customerId, to };
}

/** Encodes a position in the list of uploads as an opaque text, which `decodePageToken` decodes. */
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

/** The value of a parameter that is repeated or can't be parsed. Every validation rule rejects it. */
const INVALID = Symbol('invalid');

/**
 * The parsed value of an optional parameter. Undefined if the parameter isn't given; INVALID if it is repeated or
 * malformed.
 */
function optional<Value>(raw: RawQuery, name: string, read: (text: string) => Value): Value | typeof INVALID | undefined {
  if (raw.values(name)?.length === 0) return undefined;
  const text = raw.single(name);
  return text === undefined ? INVALID : read(text);
}

const toTime = (text: string): Date | typeof INVALID => parseTime(text) ?? INVALID;
