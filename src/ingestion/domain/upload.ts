import { DAY_MS } from '../../common/durations.js';
import { nameUpTo } from '../../common/text.js';

export const UPLOAD_KINDS = ['historical', 'nowcast'] as const;
/** The purpose of the data: training forecasting models (`historical`), or generating forecasts (`nowcast`). */
export type UploadKind = (typeof UPLOAD_KINDS)[number];

/**
 * The query parameters of an upload (service interface, part 2). They were checked when the request was read, but not
 * when an index line is read, so they may be invalid if someone has edited the line.
 */
export interface UploadParameters {
  readonly customerId: string;
  readonly filename: string;
  readonly manufacturer: string;
}

export interface UploadContent {
  /** The path of the file relative to the store's root, with `/` between its parts. */
  readonly path: string;
  /** The media type as the client sent it; `application/octet-stream` if it sent none. */
  readonly type: string;
  /** The length of the file in bytes. */
  readonly size: number;
  /** The sha-256 of the file in lower-case hex. */
  readonly sha256: string;
}

/** A complete upload, as its index line describes it. */
export interface Upload extends UploadParameters {
  /** UUID version 7, so that ids sort by the time at which the upload began. */
  readonly uploadId: string;
  readonly kind: UploadKind;
  readonly idempotencyKey: string | null;
  readonly additionalData: string | null;
  /** When the whole request had arrived, but at most 24 hours after the upload began. */
  readonly receivedAt: Date;
  readonly content: UploadContent | null;
}

export const MAX_PARAMETER_LENGTH = 128;
export const MAX_FILENAME_LENGTH = 255;
export const MAX_ENCODED_CUSTOMER_ID_BYTES = 240;

const PARAMETER = nameUpTo(MAX_PARAMETER_LENGTH);
const FILENAME = nameUpTo(MAX_FILENAME_LENGTH);

/**
 * A customer id: Unicode text of 1-128 code points, not blank, no control characters, and at most 240 bytes when
 * encoded as a directory name.
 */
export const isCustomerId = (value: unknown): value is string =>
  typeof value === 'string' && PARAMETER.test(value) && encodePathSegment(value).length <= MAX_ENCODED_CUSTOMER_ID_BYTES;

/** A filename: 1-255 code points of Unicode text, not blank, no control characters, no `/` or `\`, not `.` or `..`. */
export const isFilename = (value: unknown): value is string =>
  typeof value === 'string' && FILENAME.test(value) && !/[/\\]/.test(value) && value !== '.' && value !== '..';

/** A manufacturer: Unicode text of 1-128 code points, not blank, no control characters. */
export const isManufacturer = (value: unknown): value is string => typeof value === 'string' && PARAMETER.test(value);

/**
 * Encodes a text as a name in a path: percent-encodes its UTF-8 bytes in upper-case hex. ASCII letters, digits, `-`,
 * `_` and `.` stay as they are. The whole texts `.` and `..` become `%2E` and `%2E%2E`.
 *
 * @throws URIError for a lone surrogate.
 */
export function encodePathSegment(text: string): string {
  if (text === '.' || text === '..') return text.replaceAll('.', '%2E');
  return encodeURIComponent(text).replace(/[!'()*~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * The longest time from the beginning of an upload (the time in its id) to its `receivedAt`, which is never later, even
 * if the upload takes longer. So a search by id looks only at the index lines of 24 hours.
 */
export const MAX_UPLOAD_DURATION_MS = DAY_MS;

/**
 * Whether `receivedAt` is a valid time. It may be invalid if someone has edited the index line; the upload is then
 * neither found nor listed.
 */
export const hasValidTime = ({ receivedAt }: Upload): boolean => !Number.isNaN(receivedAt.getTime());
