import { DAY_MS } from '../../../../common/durations.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';
import type { Bucket } from './bucket.js';
import { PLANS } from './keys.js';
import { dateAt, type Day, DAY_GRACE_MS, endOf } from './segment-names.js';

/**
 * Whether a UTC day had ended at least ten minutes before `time` (milliseconds since 1970). New uploads rarely write
 * segments to such a day: only if they take more than a day, if the process or the store stalls, or if a clock is
 * wrong.
 */
export const isClosed = (date: string, time: number): boolean => time >= endOf({ date }) + DAY_GRACE_MS;

/**
 * The dates of those of the last `count` UTC days before today that ended at least ten minutes ago by the store's
 * clock, newest first.
 */
export const lastDays = ({ storeTime }: Bucket, count: number): string[] =>
  Array.from({ length: count }, (_, index) => dateAt(storeTime - (index + 1) * DAY_MS)).filter((date) => isClosed(date, storeTime));

/**
 * The days of the given kinds (default: all kinds) that ended at least ten minutes ago by the store's clock, and have
 * segments (objects with index lines), even if all of these are empty.
 */
export async function* closedDays(bucket: Bucket, kinds: readonly UploadKind[] = UPLOAD_KINDS): AsyncGenerator<Day> {
  for (const kind of kinds) {
    for await (const directory of bucket.listDirectories(`uploads/kind=${kind}/`)) {
      const date = /\/date=(\d{4}-\d\d-\d\d)\/$/.exec(directory)?.[1];
      if (date !== undefined && isClosed(date, bucket.storeTime)) yield { kind, date };
    }
  }
}

/**
 * The days with an object in `compaction/` that isn't empty. The object is a plan, if a compaction of the day has begun
 * but not ended; or a hold, which keeps compaction from the day (compaction-plan.ts); or it is damaged.
 */
export async function* plannedDays(bucket: Bucket): AsyncGenerator<Day> {
  for await (const { key, size } of bucket.list(PLANS)) {
    const [, name, date] = /^compaction\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)$/.exec(key) ?? [];
    const kind = UPLOAD_KINDS.find((known) => known === name);
    if (size > 0 && kind && date !== undefined) yield { kind, date };
  }
}
