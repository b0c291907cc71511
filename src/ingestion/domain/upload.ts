import { encodePathSegment, isNameUpTo } from '../../common/text.js';

export const UPLOAD_KINDS = ['historical', 'nowcast'] as const;
/** The purpose of the data: training forecasting models, or generating forecasts. */
export type UploadKind = (typeof UPLOAD_KINDS)[number];

/**
 * The three query parameters of an upload (service interface, part 2). They are valid by the rules below, which are
 * checked where a request is read.
 */
export interface UploadParameters {
  readonly customerId: string;
  readonly filename: string;
  readonly manufacturer: string;
}

/** Where the bytes of an uploaded file are stored, and what they are. */
export interface UploadContent {
  /** A path relative to the store's root, with `/` between its parts. */
  readonly path: string;
  /** The media type as the client sent it. */
  readonly type: string;
  /** A length in bytes. */
  readonly size: number;
  /** The sha-256 of the bytes, in lower-case hex. */
  readonly sha256: string;
}

/** A complete upload, as one line of the index describes it. */
export interface Upload extends UploadParameters {
  /** UUID version 7, so that ids sort by the time at which the upload began. */
  readonly uploadId: string;
  readonly kind: UploadKind;
  /** The client's `Idempotency-Key`; null without one. */
  readonly idempotencyKey: string | null;
  readonly additionalData: string | null;
  /** When the whole request had arrived. The upload becomes durable a little later. */
  readonly receivedAt: Date;
  /** The uploaded file; null for an upload without a file. */
  readonly content: UploadContent | null;
}

export const MAX_PARAMETER_LENGTH = 128;
export const MAX_FILENAME_LENGTH = 255;
export const MAX_ENCODED_CUSTOMER_ID_BYTES = 240;

const isParameter = isNameUpTo(MAX_PARAMETER_LENGTH);
const isLongName = isNameUpTo(MAX_FILENAME_LENGTH);

/**
 * Whether a value is a valid customer id: 1-128 code points, not blank, no control characters, and at most 240 bytes
 * when encoded as a directory name.
 */
export const isCustomerId = (value: unknown): value is string =>
  isParameter(value) && encodePathSegment(value).length <= MAX_ENCODED_CUSTOMER_ID_BYTES;

/**
 * Whether a value is a valid file name: 1-255 code points, not blank, no control characters, no `/` or `\`, neither `.`
 * nor `..`.
 */
export const isFilename = (value: unknown): value is string =>
  isLongName(value) && !/[/\\]/.test(value) && value !== '.' && value !== '..';

/** Whether a value is a valid manufacturer: 1-128 code points, not blank, no control characters. */
export const isManufacturer = isParameter;

/**
 * Maximum duration of an upload in milliseconds, from its beginning, which its id contains, to `receivedAt`: 24 hours.
 * An upload can be found by its id because of this limit.
 */
export const MAX_UPLOAD_DURATION_MS = 24 * 60 * 60 * 1000;
