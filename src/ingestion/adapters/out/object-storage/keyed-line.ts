import { decodeIndexLine } from '../../../application/line-decoding.js';
import { IDEMPOTENCY_PERIOD_MS, idempotencyScope } from '../../../domain/idempotency.js';
import { segmentDirectory } from '../../../domain/layout.js';
import type { Upload, UploadKind } from '../../../domain/upload.js';
import type { Bucket, ListedObject } from './bucket.js';
import { readAhead } from './read-ahead.js';
import { segmentOf } from './segment-names.js';

const HOUR_MS = 60 * 60 * 1000;
/**
 * Offsets from the present time, in milliseconds. The index line of an unexpired idempotency key is in the directory of
 * a UTC day to which one of these times belongs. One hour is added on both sides, because a line may be written late,
 * and clocks differ by some minutes. Neighbouring offsets are at most 24 hours apart, so that no day between is left
 * out: after midnight these times belong to three days.
 */
const DAYS_FROM_NOW_MS = [HOUR_MS, 0, -IDEMPOTENCY_PERIOD_MS, -IDEMPOTENCY_PERIOD_MS - HOUR_MS];
const KEY_MEMBER = Buffer.from('"idempotency_key":');

/** An upload under an idempotency key, and the key of the segment that contains only the upload's line. */
export interface KeyedLine {
  readonly upload: Upload;
  readonly segment: string;
  /** Milliseconds since the segment was written, by the store's clock. */
  readonly ageMs: number;
}

/**
 * Finds the upload of an idempotency scope by searching the index lines, because the claim of the scope is damaged.
 * Considers only lines in segments that are less than 24 hours old by the store's clock. Resolves to undefined if no
 * such line has the scope.
 *
 * Reads the segments of the kind that are younger than 24 hours until it finds the line, with one request each. No such
 * line moves meanwhile, because compaction doesn't merge a segment that has a line with an idempotency key for 25
 * hours. Throws errors of the bucket.
 */
export async function findKeyedLine(bucket: Bucket, kind: UploadKind, scope: string): Promise<KeyedLine | undefined> {
  for await (const [{ key: segment }, object] of readAhead(bucket, await youngSegments(bucket, kind))) {
    if (!object?.bytes.includes(KEY_MEMBER)) continue;
    // `upload` is undefined for a segment with several lines. None of these lines has an idempotency key that is
    // younger than 24 hours.
    const upload = await decodeIndexLine(object.bytes);
    if (!upload || idempotencyScope(upload) !== scope) continue;
    if (segment === segmentOf(upload)) return { upload, segment, ageMs: object.ageMs };
  }
  return undefined;
}

/** The segments of one kind from the last 24 hours that aren't empty, newest first. */
async function youngSegments(bucket: Bucket, kind: UploadKind): Promise<ListedObject[]> {
  const now = Date.now() + bucket.clockOffsetMs;
  const directories = new Set(DAYS_FROM_NOW_MS.map((fromNow) => segmentDirectory(kind, new Date(now + fromNow))));
  const segments: ListedObject[] = [];
  for (const directory of directories) {
    for await (const segment of bucket.list(`${directory}/`)) {
      if (segment.size > 0 && segment.ageMs < IDEMPOTENCY_PERIOD_MS) segments.push(segment);
    }
  }
  return segments.sort((one, other) => one.ageMs - other.ageMs);
}
