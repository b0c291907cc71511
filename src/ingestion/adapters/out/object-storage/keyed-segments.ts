import { HOUR_MS } from '../../../../common/durations.js';
import type { FoundLine } from '../../../application/found-line.js';
import { decodeIndexLine } from '../../../application/line-decoding.js';
import { IDEMPOTENCY_PERIOD_MS, idempotencyScope } from '../../../domain/idempotency.js';
import type { Upload, UploadKind } from '../../../domain/upload.js';
import type { Bucket, ListedObject } from './bucket.js';
import { readListed } from './read-ahead.js';
import { dateAt, directoryOf, parseName, segmentOf } from './segment-names.js';

/**
 * Offsets from the present time, in milliseconds. The index lines of unexpired idempotency keys are in the UTC days of
 * the resulting times: two days, or three near midnight. One hour is added on both sides of the last 24 hours, because
 * a line may be written late, and clocks differ by some minutes. Neighbouring offsets are at most 24 hours apart, so
 * that no day between is left out.
 */
const DAYS_FROM_NOW_MS = [HOUR_MS, 0, -IDEMPOTENCY_PERIOD_MS, -IDEMPOTENCY_PERIOD_MS - HOUR_MS];
const KEY_MEMBER = Buffer.from('"idempotency_key":');

/** A segment (an object) with one index line, that of an upload with an idempotency key. */
export interface KeyedSegment extends FoundLine {
  /** Milliseconds since the segment was written, by the store's clock. */
  readonly ageMs: number;
}

/**
 * Finds the upload of an idempotency scope (kind, customer and key) by searching the index lines, because the claim of
 * the scope is damaged. Considers only lines in segments that are less than 24 hours old by the store's clock. Resolves
 * to undefined if no such line has the scope.
 *
 * Reads the segments in batches while they are listed, with one request each, until it finds the line. Their order is
 * that of the listing: to sort a whole day by age would hold it in memory, and keep other work waiting. Compaction
 * doesn't move these lines during the search: it merges no segment with such a key in the first 25 hours. Throws errors
 * of the bucket.
 */
export async function findKeyedSegment(bucket: Bucket, kind: UploadKind, scope: string): Promise<KeyedSegment | undefined> {
  for await (const [{ key: segment }, object] of readListed(bucket, youngSegments(bucket, kind))) {
    const upload = object && (await keyedUpload(segment, object.bytes));
    if (upload && idempotencyScope(upload) === scope) return { upload, segment, ageMs: object.ageMs };
  }
  return undefined;
}

/**
 * The upload of a segment with one line, if that upload has an idempotency key; undefined for any other segment.
 * Segments with several lines needn't be searched: all idempotency keys in them are older than 24 hours.
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
 */
export async function* youngSegments(bucket: Bucket, kind: UploadKind): AsyncGenerator<ListedObject> {
  const dates = new Set(DAYS_FROM_NOW_MS.map((fromNow) => dateAt(bucket.now + fromNow)));
  for (const day of [...dates].map((date) => ({ kind, date }))) {
    for await (const segment of bucket.list(directoryOf(day))) {
      const isYoung = segment.size > 0 && segment.ageMs < IDEMPOTENCY_PERIOD_MS;
      if (isYoung && parseName(day, segment.key).origin === 'original') yield segment;
    }
  }
}
