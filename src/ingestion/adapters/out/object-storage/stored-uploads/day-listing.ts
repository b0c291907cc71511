import { HOUR_MS } from '../../../../../common/durations.js';
import { MIB } from '../../../../../common/sizes.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { linesDirectory } from '../../../../domain/layout.js';
import { isDate } from '../../../../domain/layout-names.js';
import type { UploadKind } from '../../../../domain/upload.js';
import { type Day, DAY_GRACE_MS, directoryOf, endOf, listNamed, slowPrefix, parseName } from '../segment-names.js';

/** One request to a store usually lists this many objects. */
export const PAGE_OBJECTS = 1_000;
const FEW = { segments: 64, bytes: 4 * MIB };

/**
 * Whether compaction of a day may have begun on any machine. True from an hour before the end of the day, because a
 * store may have several clocks, and earlier versions of the service follow the clock of their machine.
 */
export const mayBeCompacted = (bucket: Bucket, day: Day): boolean => bucket.storeTime > endOf(day) - HOUR_MS;

/**
 * Rounds the end of a span of time up to a multiple of 16 ** 6 ms (4.7 hours), so that fewer listings are needed if the
 * store lists by prefix only.
 */
export const wideEnd = (time: number): number => Math.ceil(time / 16 ** 6) * 16 ** 6;

/** Whether a day's segments are so few and short (64 segments, 4 MiB in all) that all of them may be read. */
export const isFew = (segments: readonly ListedObject[]): boolean =>
  segments.length <= FEW.segments && segments.reduce((sum, { size }) => sum + size, 0) <= FEW.bytes;

/** The non-empty segments among the first 1,000 objects of a day. `isWhole`: whether the day has fewer objects. */
export async function firstPage(bucket: Bucket, day: Day): Promise<{ segments: ListedObject[]; isWhole: boolean }> {
  const segments: ListedObject[] = [];
  let listed = 0;
  for await (const segment of bucket.list(directoryOf(day))) {
    if (segment.size > 0) segments.push(segment);
    if (++listed === PAGE_OBJECTS) return { segments, isWhole: false };
  }
  return { segments, isWhole: true };
}

/**
 * The non-empty segments of a day with names as compaction gives; none until an hour before the end of the day. Lists
 * only names with times after the day, so the number of requests doesn't grow with the day's other segments.
 *
 * @param prefix `slowPrefix(day)` for the segments with lines of slow uploads; `directoryOf(day)` for the others.
 */
export async function targets(bucket: Bucket, day: Day, prefix = directoryOf(day)): Promise<ListedObject[]> {
  if (!mayBeCompacted(bucket, day)) return [];
  // Compaction gives names with times at least DAY_GRACE_MS (ten minutes) after the end of the day. Widened to
  // multiples of powers of 16 ms, the span needs fewer prefixes. It begins 66 s earlier at most, so still after the
  // day.
  const begin = Math.floor((endOf(day) + DAY_GRACE_MS) / 16 ** 4) * 16 ** 4;
  const segments = await listNamed(bucket, prefix, begin, wideEnd(bucket.storeTime + HOUR_MS));
  return segments.filter(({ key, size }) => size > 0 && parseName(day, key).origin === 'target');
}

/** Like `targets`, including the segments with lines of slow uploads. */
export const allTargets = async (bucket: Bucket, day: Day): Promise<ListedObject[]> =>
  (await Promise.all([targets(bucket, day), targets(bucket, day, slowPrefix(day))])).flat();

/**
 * Notes which segments of a day exist. Resolves to a function that returns whether an upload has created a segment
 * since: its name has a time after the call, by the store's clock, and it wasn't there. Segments of compaction, which
 * may have older lines, don't count as created by an upload.
 */
export async function laterSegments(bucket: Bucket, day: Day): Promise<(key: string) => boolean> {
  const { storeTime } = bucket;
  const end = endOf(day) + DAY_GRACE_MS;
  if (storeTime > end) return () => false;
  // Machines whose clocks are ahead may already have given later times.
  const ahead = await Promise.all([directoryOf(day), slowPrefix(day)].map((prefix) => listNamed(bucket, prefix, storeTime, wideEnd(end))));
  const known = new Set(ahead.flat().map(({ key }) => key));
  return (key) => {
    const { origin, time } = parseName(day, key);
    return origin === 'original' && time > storeTime && !known.has(key);
  };
}

/** The days of one kind that have segments, even empty ones. */
export async function daysOf(bucket: Bucket, kind: UploadKind): Promise<Day[]> {
  const days: Day[] = [];
  for await (const directory of bucket.listDirectories(`${linesDirectory(kind)}/`)) {
    const date = /\/date=([^/]*)\/$/.exec(directory)?.[1] ?? '';
    if (isDate(date)) days.push({ kind, date });
  }
  return days;
}
