import { utcDate } from '../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';
import type { Bucket } from './bucket.js';
import { PLANS } from './keys.js';
import { type Day, DAY_GRACE_MS } from './segment-names.js';

const DAY_MS = 24 * 60 * 60_000;

/**
 * Whether a UTC day ended at least ten minutes ago by this machine's clock. New uploads then write no segments to it.
 */
export const isClosed = (date: string): boolean => Date.now() >= Date.parse(date) + DAY_MS + DAY_GRACE_MS;

/** The dates of those of the last `count` UTC days before today that ended at least ten minutes ago, newest first. */
export const lastDays = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => utcDate(new Date(Date.now() - (index + 1) * DAY_MS))).filter(isClosed);

/** The days of the store that ended at least ten minutes ago, and have segments (objects with index lines). */
export async function* closedDays(bucket: Bucket, kinds: readonly UploadKind[] = UPLOAD_KINDS): AsyncGenerator<Day> {
  for (const kind of kinds) {
    for await (const directory of bucket.listDirectories(`uploads/kind=${kind}/`)) {
      const date = /\/date=(\d{4}-\d\d-\d\d)\/$/.exec(directory)?.[1];
      if (date !== undefined && isClosed(date)) yield { kind, date };
    }
  }
}

/**
 * The days whose object in `compaction/` isn't empty: it is a plan, because a compaction of the day was begun but not
 * finished, or a hold, which keeps compaction from the day (compaction-plan.ts).
 */
export async function* plannedDays(bucket: Bucket): AsyncGenerator<Day> {
  for await (const { key, size } of bucket.list(PLANS)) {
    const [, name, date] = /^compaction\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)$/.exec(key) ?? [];
    const kind = UPLOAD_KINDS.find((known) => known === name);
    if (size > 0 && kind && date !== undefined) yield { kind, date };
  }
}
