import { isDate } from './layout-names.js';
import type { Upload, UploadKind } from './upload.js';

const RFC_3339 = /^(\d{4}-\d\d-\d\d)(T(?:[01]\d|2[0-3]):[0-5]\d:)([0-5]\d|60)(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const LEAP_SECOND = '60';

/** Selects the uploads that meet all conditions that are given. */
export interface UploadFilter {
  readonly kind?: UploadKind | undefined;
  readonly customerId?: string | undefined;
  /** Only uploads received at this time or later. */
  readonly from?: Date | undefined;
  /** Only uploads received before this time. */
  readonly to?: Date | undefined;
}

/** A position in a list of uploads, which is ordered by `receivedAt` and then by id. */
export interface UploadPosition {
  readonly receivedAt: Date;
  /** An id. An empty text sorts before every id: with the newest first, after all uploads received at `receivedAt`. */
  readonly uploadId: string;
}

/** Whether an upload meets all conditions of a filter. */
export const isSelected = (upload: Upload, { kind, customerId, from, to }: UploadFilter): boolean =>
  (kind === undefined || upload.kind === kind) &&
  (customerId === undefined || upload.customerId === customerId) &&
  (from === undefined || upload.receivedAt >= from) &&
  (to === undefined || upload.receivedAt < to);

/**
 * The position, in a list with the newest first, after the uploads received at `time` or later.
 *
 * @param time in milliseconds since 1970.
 */
export const positionBehind = (time: number): UploadPosition => ({ receivedAt: new Date(time), uploadId: '' });

/** Compares two positions for sorting, oldest first. */
export const comparePositions = (one: UploadPosition, other: UploadPosition): number =>
  one.receivedAt.getTime() - other.receivedAt.getTime() || (one.uploadId < other.uploadId ? -1 : Number(one.uploadId > other.uploadId));

/**
 * Parses a time of RFC 3339, rounded up to whole milliseconds; undefined for any other text. As a bound of a filter,
 * the rounded time selects the same uploads. A leap second (23:59:60 in UTC) counts as the second after it, as in Unix
 * time.
 */
export function parseTime(text: string): Date | undefined {
  const [, date = '', minute, second, fraction = '', zone] = RFC_3339.exec(text.toUpperCase()) ?? [];
  const isLeap = second === LEAP_SECOND;
  const isFiner = /[1-9]/.test(fraction.slice(4));
  const time = new Date(Date.parse(`${date}${minute}${isLeap ? '59' : second}${fraction.slice(0, 4)}${zone}`) + (isLeap ? 1_000 : 0));
  if (!isDate(date) || Number.isNaN(time.getTime())) return undefined;
  if (isLeap && !time.toISOString().includes('T00:00:00')) return undefined;
  return isFiner ? new Date(time.getTime() + 1) : time;
}
