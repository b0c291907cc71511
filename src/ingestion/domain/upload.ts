import { DAY_MS } from '../../common/durations.js';
import { nameUpTo } from '../../common/text.js';

export const UPLOAD_KINDS = ['historical', 'nowcast'] as const;
/** The purpose of the data: training forecasting models (`historical`), or generating forecasts (`nowcast`). */
export type UploadKind = (typeof UPLOAD_KINDS)[number];

/**
 * The three query parameters of an upload (service interface, part 2). Their values were checked when the request was
 * read (`isCustomerId`, `isFilename`, `isManufacturer`). They aren't checked again when an index line is read, so they
 * may be invalid if someone has edited the line.
 */
export interface UploadParameters {
  readonly customerId: string;
  readonly filename: string;
  readonly manufacturer: string;
}

/** Where an uploaded file is stored, and the type, size and digest of its bytes. */
export interface UploadContent {
  /** The file's path relative to the store's root, with `/` between its parts. */
  readonly path: string;
  /** The media type as the client sent it; `application/octet-stream` if the client sent none. */
  readonly type: string;
  /** Length of the file in bytes. */
  readonly size: number;
  /** The sha-256 of the file, in lower-case hex. */
  readonly sha256: string;
}

/** A complete upload, as its index line describes it. */
export interface Upload extends UploadParameters {
  /** UUID version 7, so that ids sort by the time at which the upload began. */
  readonly uploadId: string;
  readonly kind: UploadKind;
  /** The client's `Idempotency-Key`; null without one. */
  readonly idempotencyKey: string | null;
  readonly additionalData: string | null;
  /**
   * When the whole request had arrived, but at most MAX_UPLOAD_DURATION_MS after the upload began. The upload becomes
   * durable a little later.
   */
  readonly receivedAt: Date;
  /** The uploaded file; null for an upload without a file. */
  readonly content: UploadContent | null;
}

export const MAX_PARAMETER_LENGTH = 128;
export const MAX_FILENAME_LENGTH = 255;
export const MAX_ENCODED_CUSTOMER_ID_BYTES = 240;

const PARAMETER = nameUpTo(MAX_PARAMETER_LENGTH);
const FILENAME = nameUpTo(MAX_FILENAME_LENGTH);

/**
 * Whether a value is a valid customer id: Unicode text of 1-128 code points, not blank, no control characters, and at
 * most 240 bytes when encoded as a directory name.
 */
export const isCustomerId = (value: unknown): value is string =>
  typeof value === 'string' && PARAMETER.test(value) && encodePathSegment(value).length <= MAX_ENCODED_CUSTOMER_ID_BYTES;

/**
 * Whether a value is a valid file name of a client: Unicode text of 1-255 code points, not blank, no control
 * characters, no `/` or `\`, neither `.` nor `..`.
 */
export const isFilename = (value: unknown): value is string =>
  typeof value === 'string' && FILENAME.test(value) && !/[/\\]/.test(value) && value !== '.' && value !== '..';

/** Whether a value is a valid manufacturer: Unicode text of 1-128 code points, not blank, no control characters. */
export const isManufacturer = (value: unknown): value is string => typeof value === 'string' && PARAMETER.test(value);

/**
 * Encodes a text as a name in a path: percent-encodes its UTF-8 bytes in upper-case hex, except for ASCII letters,
 * digits, `-`, `_` and `.`. The whole texts `.` and `..` become `%2E` and `%2E%2E`. Throws a URIError for a lone
 * surrogate.
 */
export function encodePathSegment(text: string): string {
  if (text === '.' || text === '..') return text.replaceAll('.', '%2E');
  return encodeURIComponent(text).replace(/[!'()*~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * The longest time between the beginning of an upload (the time in its id) and its `receivedAt`, in milliseconds: 24
 * hours. If an upload takes longer, its `receivedAt` is 24 hours after its beginning. So a search for an upload by its
 * id needs to look only at the index lines of the 24 hours after the time in the id.
 */
export const MAX_UPLOAD_DURATION_MS = DAY_MS;

/**
 * Whether the `receivedAt` of an upload is a valid time. It is invalid only if someone has edited the upload's index
 * line. An upload without a valid time is neither found nor listed.
 */
export const hasValidTime = ({ receivedAt }: Upload): boolean => !Number.isNaN(receivedAt.getTime());
