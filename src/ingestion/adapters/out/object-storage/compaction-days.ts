import { DAY_MS } from '../../../../common/durations.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';
import type { Bucket } from './bucket.js';
import { PLANS } from './keys.js';
import { dateAt, type Day, DAY_GRACE_MS, endOf } from './segment-names.js';

/**
 * Whether a UTC day ended at least ten minutes before `time` (milliseconds since 1970). New uploads rarely write
 * segments to such a day.
 */
export const isClosed = (date: string, time: number): boolean => time >= endOf({ date }) + DAY_GRACE_MS;

/** Of the last `count` UTC days before the store's today, those that ended at least ten minutes ago, newest first. */
export const lastDays = ({ storeTime }: Bucket, count: number): string[] =>
  Array.from({ length: count }, (_, index) => dateAt(storeTime - (index + 1) * DAY_MS)).filter((date) => isClosed(date, storeTime));

/** The days with segments, even only empty ones, that ended ten minutes ago or earlier. Default: of all kinds. */
export async function* closedDays(bucket: Bucket, kinds: readonly UploadKind[] = UPLOAD_KINDS): AsyncGenerator<Day> {
  for (const kind of kinds) {
    for await (const directory of bucket.listDirectories(`uploads/kind=${kind}/`)) {
      const date = /\/date=(\d{4}-\d\d-\d\d)\/$/.exec(directory)?.[1];
      if (date !== undefined && isClosed(date, bucket.storeTime)) yield { kind, date };
    }
  }
}

/** The days with a plan of compaction, a hold (`DayHold`) or a damaged object in `compaction/`. */
export async function* plannedDays(bucket: Bucket): AsyncGenerator<Day> {
  for await (const { key, size } of bucket.list(PLANS)) {
    const [, name, date] = /^compaction\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)$/.exec(key) ?? [];
    const kind = UPLOAD_KINDS.find((known) => known === name);
    if (size > 0 && kind && date !== undefined) yield { kind, date };
  }
}
