import { isDate } from './layout-names.js';
import type { Upload, UploadKind } from './upload.js';

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i;

/** Conditions that select uploads. An upload must meet all conditions that are given. */
export interface UploadFilter {
  readonly kind?: UploadKind | undefined;
  readonly customerId?: string | undefined;
  /** Only uploads received at this time or later. */
  readonly from?: Date | undefined;
  /** Only uploads received before this time. */
  readonly to?: Date | undefined;
}

/**
 * A position in a list of uploads, which is ordered by time. Uploads that were received at the same time are ordered by
 * their ids.
 */
export interface UploadPosition {
  readonly receivedAt: Date;
  /**
   * If empty, the position is after all uploads of that time in a list that begins with the newest upload, because an
   * empty text sorts before every id.
   */
  readonly uploadId: string;
}

/** Whether an upload meets all conditions of a filter. */
export const isSelected = (upload: Upload, { kind, customerId, from, to }: UploadFilter): boolean =>
  (kind === undefined || upload.kind === kind) &&
  (customerId === undefined || upload.customerId === customerId) &&
  (from === undefined || upload.receivedAt >= from) &&
  (to === undefined || upload.receivedAt < to);

/**
 * The position, in a list that begins with the newest upload, after all uploads that were received at a time or later,
 * and before all others.
 *
 * @param time the time in milliseconds since 1970.
 */
export const positionBehind = (time: number): UploadPosition => ({ receivedAt: new Date(time), uploadId: '' });

/** Compares two positions, so that sorting with this function puts the oldest first. */
export const comparePositions = (one: UploadPosition, other: UploadPosition): number =>
  one.receivedAt.getTime() - other.receivedAt.getTime() || (one.uploadId < other.uploadId ? -1 : Number(one.uploadId > other.uploadId));

/** The time that a text in the form of RFC 3339 names, cut to milliseconds; undefined for any other text. */
export function parseTime(text: string): Date | undefined {
  const time = new Date(text.toUpperCase());
  return RFC_3339.test(text) && isDate(text.slice(0, 10)) && !Number.isNaN(time.getTime()) ? time : undefined;
}
