import { timeOfUuid } from '../../../../common/uuid.js';
import { linesDirectory, segmentDirectory, utcDate } from '../../../domain/layout.js';
import type { Upload, UploadKind } from '../../../domain/upload.js';
import type { Bucket, ListedObject } from './bucket.js';
import { ownSegment } from './keys.js';

/**
 * The name of a segment says when its lines were received, so that a line is found without reading other segments:
 *
 * | name | lines | received |
 * |---|---|---|
 * | `<upload_id>` | of one upload | within 10 s of the id's time |
 * | `slow-<time>-<upload_id>` | of one upload that took longer | at that time |
 * | another UUID | of several uploads, whose ids have times within 10 s of `received_at` | within 10 s of the UUID's time |
 * | a UUID of a time after the day | of compaction, in the order of the names before | on that day |
 * | `slow-<UUID>` | of compaction, in the order of `received_at` | on that day |
 *
 * Times are the first 48 bits of a version 7 UUID.
 */
export const NAME_TOLERANCE_MS = 10_000;

const DAY_MS = 24 * 60 * 60 * 1000;
/** A segment whose name was given later than this after the end of its day was created by compaction. */
export const DAY_GRACE_MS = 10 * 60_000;
const SLOW = 'slow-';
const SLOW_TIME = /^slow-[0-9a-f]{8}-[0-9a-f]{4}-(?=.{36}$)/;
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';
const NAME = new RegExp(`^(?:${UUID}|${SLOW}[0-9a-f]{8}-[0-9a-f]{4}-${UUID})\\.ndjson$`);
const SLOW_TARGET = new RegExp(`^${SLOW}${UUID}\\.ndjson$`);

/** The segments of one kind and day. */
export interface Day {
  readonly kind: UploadKind;
  /** `YYYY-MM-DD`, in UTC. */
  readonly date: string;
}

/** The directory of a day's segments, with a `/` at the end. */
export const directoryOf = ({ kind, date }: Day): string => `${linesDirectory(kind)}/date=${date}/`;

/** The end of a day, in milliseconds since 1970. */
export const endOf = ({ date }: Pick<Day, 'date'>): number => Date.parse(date) + DAY_MS;

/** The day of a key of a segment. */
export function dayOf(segment: string): Day | undefined {
  const [, kind, date] = /^uploads\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)\//.exec(segment) ?? [];
  return kind === undefined || date === undefined ? undefined : { kind: kind as UploadKind, date };
}

/** The day of a time, in milliseconds since 1970. */
export const dateAt = (time: number): string => utcDate(new Date(time));

/** Whether `received_at` of an upload is so far from the time of its id that its segment is named by `received_at`. */
export const isSlow = ({ uploadId, receivedAt }: Pick<Upload, 'uploadId' | 'receivedAt'>): boolean =>
  Math.abs(receivedAt.getTime() - timeOfUuid(uploadId)) > NAME_TOLERANCE_MS;

/** The segment that contains only the line of one upload. */
export function segmentOf(upload: Pick<Upload, 'kind' | 'uploadId' | 'receivedAt'>): string {
  const { kind, uploadId, receivedAt } = upload;
  const slow = isSlow(upload) ? `${SLOW}${timeText(receivedAt.getTime())}-` : '';
  return ownSegment(segmentDirectory(kind, receivedAt), `${slow}${uploadId}`);
}

/** The part of a segment's key that is the upload's id, if the segment contains only one line. */
export const uploadIdIn = (segment: string): string =>
  segment.slice(segment.lastIndexOf('/') + 1).replace(/\.ndjson$/, '').replace(SLOW_TIME, '');

/** Whether a key is that of a segment which contains only this upload's line. */
export const isOwnSegment = (segment: string, uploadId: string): boolean =>
  /^uploads\/kind=[a-z]+\/date=[\d-]+\/[^/]+\.ndjson$/.test(segment) && uploadIdIn(segment) === uploadId;

/** The prefix of the keys of segments that are named by `received_at`. */
export const slowPrefix = (day: Day): string => `${directoryOf(day)}${SLOW}`;

/** What the key of a segment says about its lines. */
export interface SegmentName {
  /**
   * - `original`: written by uploads, and not yet compacted.
   * - `target`: created by compaction, in the order of the names of the segments before it.
   * - `foreign`: any other name.
   */
  readonly origin: 'original' | 'target' | 'foreign';
  readonly isSlow: boolean;
  /** The time in the name, in milliseconds since 1970. NaN for a foreign name. */
  readonly time: number;
}

/** @param key the key of a segment of this day. */
export function parseName(day: Day, key: string): SegmentName {
  const name = key.slice(directoryOf(day).length);
  const isSlow = name.startsWith(SLOW);
  const time = timeIn(isSlow ? name.slice(SLOW.length) : name);
  if (SLOW_TARGET.test(name)) return { origin: 'target', isSlow, time };
  if (!NAME.test(name)) return { origin: 'foreign', isSlow: false, time: Number.NaN };
  return { origin: isSlow || time < endOf(day) + DAY_GRACE_MS ? 'original' : 'target', isSlow, time };
}

/** The name of a segment that compaction creates at a time. It is later than the names of the segments it replaces. */
export const targetName = (uuid: string, isSlow: boolean): string => `${isSlow ? SLOW : ''}${uuid}.ndjson`;

const timeIn = (name: string): number => parseInt(name.slice(0, 8) + name.slice(9, 13), 16);

const TIME_DIGITS = 12;
/** The shortest time that `listNamed` tells apart, in milliseconds. */
export const FINEST_MS = 16 ** 3;

/** A time as the beginning of a version 7 UUID. */
function timeText(time: number): string {
  const digits = time.toString(16).padStart(TIME_DIGITS, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}`;
}

/**
 * Lists the objects below a prefix whose names go on with a time, from `begin` (included) to `end` (excluded), in
 * milliseconds since 1970. Both are rounded to the next 4 s outside. A store lists by prefix only, so each request asks
 * for one power of 16 ms; all requests are sent at once.
 */
export async function listNamed(bucket: Bucket, prefix: string, begin: number, end: number): Promise<ListedObject[]> {
  const lists = prefixesBetween(begin, end).map(async (time) => {
    const objects: ListedObject[] = [];
    for await (const object of bucket.list(prefix + time)) objects.push(object);
    return objects;
  });
  return (await Promise.all(lists)).flat();
}

/**
 * The beginnings of names with times from `begin` (included) to `end` (excluded), in ascending order, as few as possible.
 * `end` is rounded up to 4 s.
 *
 * @param begin a multiple of FINEST_MS.
 */
export function prefixesBetween(begin: number, end: number): string[] {
  const prefixes: string[] = [];
  const last = Math.ceil(end / FINEST_MS) * FINEST_MS;
  for (let at = Math.floor(begin / FINEST_MS) * FINEST_MS; at < last; ) {
    let span = FINEST_MS;
    let digits = 9;
    while (at % (span * 16) === 0 && at + span * 16 <= last) {
      span *= 16;
      digits -= 1;
    }
    // The text has a dash after the eighth digit.
    prefixes.push(timeText(at).slice(0, digits > 8 ? digits + 1 : digits));
    at += span;
  }
  return prefixes;
}
