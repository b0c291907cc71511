import type { UploadFilter, UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { UPLOAD_KINDS } from '../../../../domain/upload.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { dateAt, type Day, directoryOf, endOf, FINEST_MS, listNamed, NAME_TOLERANCE_MS, parseName, slowPrefix } from '../segment-names.js';
import { allTargets, daysOf, firstPage, isFew, mayBeCompacted } from './day-listing.js';
import type { OnLine, Source } from './newest-first.js';
import { allLines } from './segment-lines.js';
import { SortedSource, WHOLE_BYTES } from './sorted-segment.js';

const DAY_MS = 24 * 60 * 60_000;
const FIRST_WINDOW_MS = FINEST_MS * 16;
const LONGEST_WINDOW_MS = FINEST_MS * 16 ** 3;
const FEW_IN_WINDOW = 100;
const MANY_IN_WINDOW = 3_000;

/**
 * The sources that a list of uploads is read from. At first, each source is a day. When a day is read, the day's
 * segments become sources in its place.
 */
export class DaySources {
  /** All uploads of the list were received at this time or earlier, in milliseconds since 1970. */
  private readonly until: number;
  /** For each day with many segments, the keys of those that compaction had created when the day was listed. */
  private readonly created = new Map<Day, ReadonlySet<string>>();

  constructor(
    private readonly bucket: Bucket,
    private readonly filter: UploadFilter,
    after?: UploadPosition,
  ) {
    this.until = Math.min(after?.receivedAt.getTime() ?? Infinity, (filter.to?.getTime() ?? Infinity) - 1);
  }

  async all(): Promise<Source[]> {
    const { kind, from } = this.filter;
    const kinds = kind ? [kind] : UPLOAD_KINDS;
    const isWanted = (day: Day): boolean => endOf(day) > (from?.getTime() ?? -Infinity) && endOf(day) - DAY_MS <= this.until;
    // A list mostly begins with the current day, so the segments of the current day are listed at the same time as the
    // days.
    const current = new Map(kinds.map((each) => ({ kind: each, date: dateAt(Date.now()) })).filter(isWanted).map((day) => [directoryOf(day), this.read(day)]));
    for (const reading of current.values()) reading.catch(() => undefined);
    const days = await Promise.all(kinds.map((each) => daysOf(this.bucket, each)));
    return days
      .flat()
      .filter(isWanted)
      .map((day) => ({ size: undefined, latest: endOf(day) - 1, read: () => current.get(directoryOf(day)) ?? this.read(day) }));
  }

  /**
   * Whether compaction has created further segments since a day's segments were listed. A listing that was made
   * afterwards may already lack the segments that they replace, so lines may be missing from the page.
   */
  async hasMoved(): Promise<boolean> {
    const moved = [...this.created].map(async ([day, known]) => (await allTargets(this.bucket, day)).some(({ key }) => !known.has(key)));
    return (await Promise.all(moved)).includes(true);
  }

  private async read(day: Day): Promise<Source[]> {
    const windows = [directoryOf(day), slowPrefix(day)].map((prefix) => this.window(day, prefix));
    // The current day is probably large, so its newest segments are listed at the same time as its first page.
    const newest = mayBeCompacted(day) ? undefined : Promise.all(windows.map((window) => window.read()));
    newest?.catch(() => undefined);
    const { segments, isWhole } = await firstPage(this.bucket, day);
    if (isWhole) {
      const few = isFew(segments);
      return segments.flatMap((segment) => this.segment(day, segment, few));
    }
    const created = await allTargets(this.bucket, day);
    if (mayBeCompacted(day)) this.created.set(day, new Set(created.map(({ key }) => key)));
    return [...(newest ? (await newest).flat() : windows), ...created.flatMap((segment) => this.segment(day, segment))];
  }

  /**
   * A source for a day's newest segments, selected by the times in their names. Reading this source returns a source
   * for each of these segments, and one for the older segments.
   */
  private window(day: Day, prefix: string): Source & { read(): Promise<Source[]> } {
    const tolerance = prefix === slowPrefix(day) ? 0 : NAME_TOLERANCE_MS;
    const earliest = Math.max(endOf(day) - DAY_MS, this.filter.from?.getTime() ?? -Infinity) - tolerance;
    const below = (end: number, span: number): Source & { read(): Promise<Source[]> } => ({
      size: undefined,
      latest: Math.min(end - 1 + tolerance, endOf(day) - 1),
      read: async () => {
        // Listing a window of time takes one or two requests: a store lists by prefix, so a window begins and ends at
        // multiples of its length.
        const begin = Math.floor((end - span / 2) / span) * span;
        const isWithin = ({ key, size }: ListedObject): boolean => {
          const { origin, time } = parseName(day, key);
          return size > 0 && origin === 'original' && time >= begin && time < end;
        };
        const segments = (await listNamed(this.bucket, prefix, begin, Math.ceil(end / span) * span)).filter(isWithin);
        const next = segments.length < FEW_IN_WINDOW ? span * 16 : segments.length > MANY_IN_WINDOW ? span / 16 : span;
        const rest = begin <= earliest ? [] : [below(begin, Math.min(LONGEST_WINDOW_MS, Math.max(FINEST_MS, next)))];
        return [...segments.flatMap((segment) => this.segment(day, segment)), ...rest];
      },
    });
    return below(Math.min(this.until, endOf(day) - 1, Date.now() + DAY_MS) + tolerance + 1, FIRST_WINDOW_MS);
  }

  /**
   * The sources for one segment: none if the time in the segment's name is too late for the list.
   *
   * @param isFew whether to read the segment whatever its name says.
   */
  private segment(day: Day, segment: ListedObject, isFew = false): Source[] {
    const { key, size } = segment;
    const { origin, isSlow, time } = parseName(day, key);
    const latest = endOf(day) - 1;
    if (origin === 'target' && size > WHOLE_BYTES) {
      return [new SortedSource(this.bucket, segment, { latest, until: this.until, disorderMs: isSlow ? 0 : 2 * NAME_TOLERANCE_MS })];
    }
    const read = async (onLine: OnLine): Promise<Source[]> => {
      for await (const { upload, length } of allLines(this.bucket, key)) onLine(upload, length);
      return [];
    };
    if (isFew || origin !== 'original') return [{ size, latest, read }];
    const tolerance = isSlow ? 0 : NAME_TOLERANCE_MS;
    return time - tolerance > this.until ? [] : [{ size, latest: Math.min(latest, time + tolerance), read }];
  }
}
