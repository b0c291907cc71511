import { HOUR_MS, MINUTE_MS } from '../../../../common/durations.js';
import type { FoundLine } from '../../../application/found-line.js';
import { decodeIndexLine } from '../../../application/line-decoding.js';
import { IDEMPOTENCY_PERIOD_MS, idempotencyScope } from '../../../domain/idempotency.js';
import type { Upload, UploadKind } from '../../../domain/upload.js';
import type { Bucket, ListedObject } from './bucket.js';
import { readListed } from './read-ahead.js';
import { dateAt, directoryOf, parseName, segmentOf } from './segment-names.js';

/**
 * The lines of unexpired idempotency keys are in the UTC days at these offsets from now. One hour is added on both
 * sides of the last 24 hours, because a line may be written late, and clocks differ by some minutes. Neighbouring
 * offsets are at most 24 hours apart, so that no day between is left out.
 */
const DAYS_FROM_NOW_MS = [HOUR_MS, 0, -IDEMPOTENCY_PERIOD_MS, -IDEMPOTENCY_PERIOD_MS - HOUR_MS];
/**
 * How far the time in the name of a new segment may be ahead of the store's clock: a machine whose clock is off by more
 * than four minutes gives names by the store's clock (`Bucket.now`).
 */
const AHEAD_MS = 5 * MINUTE_MS;
const KEY_MEMBER = Buffer.from('"idempotency_key":');

export interface KeyedSegment extends FoundLine {
  /** Time since the segment was written, by the store's clock. */
  readonly ageMs: number;
}

/**
 * Finds the upload of an idempotency scope whose claim is damaged, in the index lines. Undefined if no segment that was
 * written in the last 24 hours, by the store's clock, has the scope. Throws errors of the bucket.
 *
 * Compaction doesn't move such lines during the search: it merges no segment with such a key in the first 25 hours.
 */
export async function findKeyedSegment(bucket: Bucket, kind: UploadKind, scope: string): Promise<KeyedSegment | undefined> {
  for await (const [{ key: segment }, object] of readListed(bucket, youngSegments(bucket, kind))) {
    const upload = object && (await keyedUpload(segment, object.bytes));
    if (upload && idempotencyScope(upload) === scope) return { upload, segment, ageMs: object.ageMs };
  }
  return undefined;
}

/**
 * The upload of a segment with only one line, if it has an idempotency key; undefined for any other segment.
 * Idempotency keys in segments with several lines are all older than 24 hours.
 */
export async function keyedUpload(segment: string, bytes: Buffer): Promise<Upload | undefined> {
  if (!bytes.includes(KEY_MEMBER)) return undefined;
  const upload = await decodeIndexLine(bytes);
  const isKeyed = upload?.idempotencyKey != null && !Number.isNaN(upload.receivedAt.getTime());
  return isKeyed && segment === segmentOf(upload) ? upload : undefined;
}

/**
 * Lists the segments of one kind that may have the line of an unexpired idempotency key: those that uploads have
 * written in the last 24 hours, by the store's clock, and that aren't empty. Throws errors of the bucket.
 *
 * The list ends even if uploads create segments faster than the caller reads them: it leaves out those that were
 * created after the call, except for some with names of the first five minutes.
 */
export async function* youngSegments(bucket: Bucket, kind: UploadKind): AsyncGenerator<ListedObject> {
  const began = bucket.storeTime;
  const dates = new Set(DAYS_FROM_NOW_MS.map((fromNow) => dateAt(bucket.now + fromNow)));
  for (const day of [...dates].map((date) => ({ kind, date }))) {
    for await (const segment of bucket.list(directoryOf(day))) {
      const isYoung = segment.size > 0 && segment.ageMs < IDEMPOTENCY_PERIOD_MS;
      const { origin, time } = parseName(day, segment.key);
      const isLater = time > began + AHEAD_MS && bucket.storeTime - segment.ageMs > began;
      if (isYoung && origin === 'original' && !isLater) yield segment;
    }
  }
}
