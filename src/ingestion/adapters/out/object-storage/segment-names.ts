import { DAY_MS, MINUTE_MS } from '../../../../common/durations.js';
import { timeOfUuid } from '../../../../common/uuid.js';
import { linesDirectory, segmentDirectory, utcDate } from '../../../domain/layout.js';
import type { Upload, UploadKind } from '../../../domain/upload.js';
import type { Bucket, ListedObject } from './bucket.js';
import { segmentKey } from './keys.js';

/**
 * How far the time in a segment's name may be from the `received_at` of the segment's lines, in milliseconds, unless
 * compaction or a move of a store created the segment.
 *
 * A segment is an object with index lines, one for each upload. It is in the directory of the UTC day on which these
 * uploads were received. The names contain a time, so that a line is usually found without reading many other segments:
 *
 * | name | lines | received |
 * |---|---|---|
 * | `<upload_id>` | of one upload | within 10 s of the id's time |
 * | `slow-<time>-<upload_id>` | of one slow upload | at `<time>` |
 * | another UUID, of a time less than 10 min after the day | of one or more uploads, whose ids have times within 1 s of the UUID's time (20 s if an earlier version wrote it) | within 10 s of the UUID's time |
 * | another UUID, of a later time | of uploads that aren't slow, merged by compaction in the order of the merged names | at any time of the day |
 * | `slow-<UUID>` | of slow uploads, merged by compaction in the order of `received_at` | at any time of the day |
 *
 * Segments that a move of a store writes have such names too (`MovedLines`).
 *
 * An upload is slow if it was received more than 10 s before or after its id's time. "The day" is that of the
 * directory. The time of a UUID (version 7) is its first 48 bits. `<time>` is written like these bits, as 12 hex digits
 * with a dash after the eighth.
 */
export const NAME_TOLERANCE_MS = 10_000;

/**
 * How far the time in the name of a segment that uploads share may be from the times in the ids of these uploads, in
 * milliseconds, unless compaction or an earlier version of the service wrote the segment. So a search by an id reads
 * few segments.
 */
export const SHARED_APART_MS = 1_000;

/**
 * If the time in a segment's name is at least this long after the end of its day, compaction or a move of a store
 * created the segment. Uploads give earlier times.
 */
export const DAY_GRACE_MS = 10 * MINUTE_MS;
const SLOW = 'slow-';
const SLOW_TIME = /^slow-[0-9a-f]{8}-[0-9a-f]{4}-(?=.{36}$)/;
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';
const NAME = new RegExp(`^(?:${UUID}|${SLOW}[0-9a-f]{8}-[0-9a-f]{4}-${UUID})\\.ndjson$`);
const SLOW_TARGET = new RegExp(`^${SLOW}${UUID}\\.ndjson$`);

export interface Day {
  readonly kind: UploadKind;
  /** `YYYY-MM-DD`, in UTC. */
  readonly date: string;
}

/** The directory of a day's segments, with a `/` at the end. */
export const directoryOf = ({ kind, date }: Day): string => `${linesDirectory(kind)}/date=${date}/`;

/** The end of a UTC day, in milliseconds since 1970. */
export const endOf = ({ date }: Pick<Day, 'date'>): number => Date.parse(date) + DAY_MS;

/** The kind and day in a segment's key; undefined if the key isn't in a directory of segments. */
export function dayOf(segment: string): Day | undefined {
  const [, kind, date] = /^uploads\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)\//.exec(segment) ?? [];
  return kind === undefined || date === undefined ? undefined : { kind: kind as UploadKind, date };
}

/** The UTC date (`YYYY-MM-DD`) of a time in milliseconds since 1970. */
export const dateAt = (time: number): string => utcDate(new Date(time));

/** Whether an upload's `received_at` is more than 10 s from the time in its id. */
export const isSlow = (upload: Timed): boolean => durationOf(upload) > NAME_TOLERANCE_MS;

/**
 * Whether an upload's line may share a segment with those of others. Its `received_at` must be at most 9 s from the
 * time in its id. Then it is within 10 s of any time that the segment's name may have.
 */
export const mayShare = (upload: Timed): boolean => durationOf(upload) <= NAME_TOLERANCE_MS - SHARED_APART_MS;

type Timed = Pick<Upload, 'uploadId' | 'receivedAt'>;

const durationOf = ({ uploadId, receivedAt }: Timed): number => Math.abs(receivedAt.getTime() - timeOfUuid(uploadId));

/** The key of an upload's segment if the upload shares it with no other. */
export function segmentOf(upload: Pick<Upload, 'kind' | 'uploadId' | 'receivedAt'>): string {
  const { kind, uploadId, receivedAt } = upload;
  const slow = isSlow(upload) ? `${SLOW}${timeText(receivedAt.getTime())}-` : '';
  return segmentKey(segmentDirectory(kind, receivedAt), `${slow}${uploadId}`);
}

/** The upload's id in the key of a segment with only its line. For any other segment, the name without `.ndjson`. */
export const uploadIdIn = (segment: string): string =>
  segment.slice(segment.lastIndexOf('/') + 1).replace(/\.ndjson$/, '').replace(SLOW_TIME, '');

/** Whether a key, by its form, is that of the segment for which `uploadIdIn` returns this id. */
export const isSegmentOf = (segment: string, uploadId: string): boolean =>
  /^uploads\/kind=[a-z]+\/date=[\d-]+\/[^/]+\.ndjson$/.test(segment) && uploadIdIn(segment) === uploadId;

/** The key prefix of a day's segments with lines of slow uploads. */
export const slowPrefix = (day: Day): string => `${directoryOf(day)}${SLOW}`;

export interface SegmentName {
  /**
   * - `original`: a name as uploads give to their segments.
   * - `target`: a name as compaction gives to a merged segment, whose lines are in the order of the merged names.
   * - `foreign`: any other name. The service never gives such a name.
   *
   * A move of a store gives names of the first two forms (`MovedLines`).
   */
  readonly origin: 'original' | 'target' | 'foreign';
  readonly isSlow: boolean;
  /** The time in the name, in milliseconds since 1970; NaN for a foreign name. */
  readonly time: number;
}

/** The properties of a segment in the directory of `day`, from its key. */
export function parseName(day: Day, key: string): SegmentName {
  const name = key.slice(directoryOf(day).length);
  const isSlow = name.startsWith(SLOW);
  const time = timeIn(isSlow ? name.slice(SLOW.length) : name);
  if (SLOW_TARGET.test(name)) return { origin: 'target', isSlow, time };
  if (!NAME.test(name)) return { origin: 'foreign', isSlow: false, time: Number.NaN };
  return { origin: isSlow || time < endOf(day) + DAY_GRACE_MS ? 'original' : 'target', isSlow, time };
}

/**
 * The name of a segment that compaction or a move of a store creates, without its directory. If `uuid` is a version 7
 * UUID of the current time, the name sorts after the names of the merged segments.
 */
export const targetName = (uuid: string, isSlow: boolean): string => `${isSlow ? SLOW : ''}${uuid}.ndjson`;

const timeIn = (name: string): number => parseInt(name.slice(0, 8) + name.slice(9, 13), 16);

const TIME_DIGITS = 12;
/** `listNamed` rounds times to multiples of this: about 4 s. */
export const FINEST_MS = 16 ** 3;

/** The text with which a version 7 UUID (RFC 9562) of a time, in milliseconds since 1970, begins. */
function timeText(time: number): string {
  const digits = time.toString(16).padStart(TIME_DIGITS, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}`;
}

/**
 * Lists the objects whose keys consist of `prefix` and a name that begins with a time from `begin` (included) to `end`
 * (excluded), in milliseconds since 1970, both rounded outwards to multiples of FINEST_MS. May also list other names
 * that sort between these. If the store can only list by prefix, this takes a listing for each of `prefixesBetween`.
 *
 * @param limit how many objects each listing lists at most. If there are as many, further ones may be missing.
 */
export async function listNamed(bucket: Bucket, prefix: string, begin: number, end: number, limit = Infinity): Promise<ListedObject[]> {
  const following = bucket.listAfter(prefix, prefix + timeText(Math.floor(begin / FINEST_MS) * FINEST_MS));
  if (following) return firstOf(following, limit, prefix + timeText(Math.ceil(end / FINEST_MS) * FINEST_MS));
  const lists = prefixesBetween(begin, end).map((time) => firstOf(bucket.list(prefix + time), limit));
  return (await Promise.all(lists)).flat();
}

async function firstOf(listed: AsyncIterable<ListedObject>, limit: number, endKey?: string): Promise<ListedObject[]> {
  const objects: ListedObject[] = [];
  for await (const object of listed) {
    if (endKey !== undefined && object.key >= endKey) break;
    if (objects.push(object) === limit) break;
  }
  return objects;
}

/**
 * The fewest prefixes of version 7 UUIDs that cover all names with times from `begin` (included) to `end` (excluded),
 * in milliseconds since 1970, both rounded outwards to multiples of FINEST_MS. In ascending order.
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
    prefixes.push(timeText(at).slice(0, digits > 8 ? digits + 1 : digits));
    at += span;
  }
  return prefixes;
}
