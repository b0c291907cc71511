import { DAY_MS, MINUTE_MS } from '../../../../../common/durations.js';
import type { UploadFilter, UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { UPLOAD_KINDS } from '../../../../domain/upload.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { dateAt, type Day, directoryOf, endOf, FINEST_MS, listNamed, NAME_TOLERANCE_MS, parseName, slowPrefix } from '../segment-names.js';
import { allTargets, daysOf, firstPage, isFew, mayBeCompacted } from './day-listing.js';
import type { OnLine, Source } from './newest-first.js';
import { allLines } from './segment-lines.js';
import { SortedSource, WHOLE_BYTES } from './sorted-segment.js';

const FIRST_WINDOW_MS = FINEST_MS * 16;
const MAX_WINDOW_MS = FINEST_MS * 16 ** 3;
const FEW_IN_WINDOW = 100;
const MANY_IN_WINDOW = 3_000;

interface MovingDay {
  readonly known: ReadonlySet<string>;
  /** Merged segments, listed after the last other listing of the day; undefined if not listed since then. */
  later: Promise<readonly ListedObject[]> | undefined;
}

/** The sources that a list of uploads is read from: at first days, then the segments of each day that is read. */
export class DaySources {
  /** Uploads received later than this aren't listed, in milliseconds since 1970. */
  private readonly until: number;
  private readonly moving = new Map<Day, MovingDay>();

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
    // A list mostly begins with the current day. So this day's segments are listed at the same time as the directories
    // of all days.
    const now = this.bucket.storeTime;
    const recent = [...new Set([dateAt(now), dateAt(now - MINUTE_MS)])].flatMap((date) => kinds.map((each) => ({ kind: each, date })));
    const current = new Map(recent.filter(isWanted).map((day) => [directoryOf(day), this.read(day, true)]));
    for (const reading of current.values()) reading.catch(() => undefined);
    const days = await Promise.all(kinds.map(async (each) => (await daysOf(this.bucket, each)).filter(isWanted)));
    return days.flatMap((ofKind) => {
      const first = this.until >= now ? ofKind.at(-1) : undefined;
      return ofKind.map((day) => ({ size: undefined, latest: endOf(day) - 1, read: () => current.get(directoryOf(day)) ?? this.read(day, day === first) }));
    });
  }

  /**
   * Whether compaction has created further segments for a large day since that day was first listed. Lines of the
   * segments that compaction has merged may then be missing from the page.
   */
  async hasMoved(): Promise<boolean> {
    const moved = [...this.moving].map(async ([day, { known, later }]) => (await (later ?? allTargets(this.bucket, day))).some(({ key }) => !known.has(key)));
    return (await Promise.all(moved)).includes(true);
  }

  private async read(day: Day, isLarge = false): Promise<Source[]> {
    const listLarge = () => Promise.all([this.newest(day), allTargets(this.bucket, day)]);
    const large = isLarge ? listLarge() : undefined;
    large?.catch(() => undefined);
    const { segments, isWhole } = await firstPage(this.bucket, day);
    if (isWhole) {
      const few = isFew(segments);
      return segments.flatMap((segment) => this.segment(day, segment, few));
    }
    const [newest, created] = await (large ?? listLarge());
    if (mayBeCompacted(this.bucket, day)) {
      // Merged segments are listed again while other segments are read, so that `hasMoved` needn't wait. The listing
      // isn't used if older segments of the day are listed after it.
      const later = allTargets(this.bucket, day);
      later.catch(() => undefined);
      this.moving.set(day, { known: new Set(created.map(({ key }) => key)), later });
    }
    return [...newest, ...created.flatMap((segment) => this.segment(day, segment))];
  }

  private async newest(day: Day): Promise<Source[]> {
    return (await Promise.all([directoryOf(day), slowPrefix(day)].map((prefix) => this.window(day, prefix).read()))).flat();
  }

  private window(day: Day, prefix: string): Source & { read(): Promise<Source[]> } {
    const tolerance = prefix === slowPrefix(day) ? 0 : NAME_TOLERANCE_MS;
    const earliest = Math.max(endOf(day) - DAY_MS, this.filter.from?.getTime() ?? -Infinity) - tolerance;
    const below = (end: number, span: number): Source & { read(): Promise<Source[]> } => ({
      size: undefined,
      latest: Math.min(end - 1 + tolerance, endOf(day) - 1),
      read: async () => {
        // A window begins and ends at multiples of its length, so that it takes one or two requests if the store lists
        // by prefix only. The first window of the current day goes on to the end of the day, in case the clock of
        // another machine is ahead.
        const begin = Math.floor((Math.min(end, this.bucket.storeTime) - span / 2) / span) * span;
        const moving = this.moving.get(day);
        if (moving) moving.later = undefined;
        const isWithin = ({ key, size }: ListedObject): boolean => {
          const { origin, time } = parseName(day, key);
          return size > 0 && origin === 'original' && time >= begin && time < end;
        };
        const segments = (await listNamed(this.bucket, prefix, begin, Math.ceil(end / span) * span)).filter(isWithin);
        const next = segments.length < FEW_IN_WINDOW ? span * 16 : segments.length > MANY_IN_WINDOW ? span / 16 : span;
        const rest = begin <= earliest ? [] : [below(begin, Math.min(MAX_WINDOW_MS, Math.max(FINEST_MS, next)))];
        return [...segments.flatMap((segment) => this.segment(day, segment)), ...rest];
      },
    });
    return below(Math.min(this.until, endOf(day) - 1, this.bucket.storeTime + DAY_MS) + tolerance + 1, FIRST_WINDOW_MS);
  }

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
