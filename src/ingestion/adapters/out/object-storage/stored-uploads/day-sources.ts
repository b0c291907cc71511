import { DAY_MS, MINUTE_MS } from '../../../../../common/durations.js';
import { CustomerLines } from '../../../../application/customer-lines.js';
import { UPLOAD_KINDS } from '../../../../domain/upload.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { dateAt, type Day, directoryOf, endOf, FINEST_MS, listNamed, NAME_TOLERANCE_MS, parseName, slowPrefix } from '../segment-names.js';
import type { BusyDays } from './busy-days.js';
import { allTargets, daysOf, firstPage, isFew, mayBeCompacted, PAGE_OBJECTS, wideEnd } from './day-listing.js';
import type { OnLine, PageQuery, Source } from './newest-first.js';
import { allLines, SegmentGoneError } from './line-reading.js';
import { SortedSource, WHOLE_BYTES } from './sorted-segment.js';

/**
 * 65 s, 9 minutes, 70 minutes and 9 hours. With up to 15 uploads a second, the windows that take one request each
 * together have at least 100 segments, if the day has more than a page of them.
 */
const FIRST_WINDOWS_MS = [16, 128, 1_024, 8_192].map((count) => count * FINEST_MS);
const MAX_WINDOW_MS = Math.max(...FIRST_WINDOWS_MS);
/** A window of more segments is listed again in parts: a quiet time says nothing of the time before it. */
const MAX_OBJECTS = 4 * PAGE_OBJECTS;

/** A span of the times in names of segments, in milliseconds since 1970. */
interface Window {
  readonly begin: number;
  readonly end: number;
  /** The length that was asked for. The window is up to an eighth shorter. */
  readonly span: number;
}

type ListedWindows = Source & { read(): Promise<Source[]> };

/** A day whose lines compaction may move while they are read. */
interface MovingDay {
  /** The keys of the merged segments that were listed first. */
  readonly known: ReadonlySet<string>;
  /** Merged segments, listed after the last other listing of the day; undefined if one listing had all segments. */
  later?: Promise<readonly ListedObject[]>;
  /** How many other listings of the day are in progress. */
  listings: number;
  /** Whether a listed segment was gone when it was read: its uploads were removed, or compaction has moved its lines. */
  hasGone: boolean;
}

/** The sources that a list of uploads is read from: at first days, then the segments of each day that is read. */
export class DaySources {
  /** Uploads received later than this aren't listed, in milliseconds since 1970. */
  private readonly until: number;
  private readonly moving = new Map<Day, MovingDay>();

  constructor(
    private readonly bucket: Bucket,
    private readonly query: PageQuery,
    private readonly busyDays: BusyDays,
  ) {
    const { filter, after } = query;
    this.until = Math.min(after?.receivedAt.getTime() ?? Infinity, (filter.to?.getTime() ?? Infinity) - 1);
  }

  async all(): Promise<Source[]> {
    const { kind, from } = this.query.filter;
    const kinds = kind ? [kind] : UPLOAD_KINDS;
    const isWanted = (day: Day): boolean => endOf(day) > (from?.getTime() ?? -Infinity) && endOf(day) - DAY_MS <= this.until;
    // A list mostly begins with the current day. So its first segments are listed at the same time as the directories
    // of all days.
    const now = this.bucket.storeTime;
    const recent = [...new Set([dateAt(now), dateAt(now - MINUTE_MS)])].flatMap((date) => kinds.map((each) => ({ kind: each, date }))).filter(isWanted);
    const [current, days] = await Promise.all([
      Promise.all(recent.map((day) => this.read(day))),
      Promise.all(kinds.map(async (each) => (await daysOf(this.bucket, each)).filter(isWanted))),
    ]);
    const isRead = new Set(recent.map(directoryOf));
    const others = days.flatMap((ofKind) => {
      const first = this.until >= now ? ofKind.at(-1) : undefined;
      return ofKind.filter((day) => !isRead.has(directoryOf(day))).map((day) => ({ size: undefined, latest: endOf(day) - 1, read: () => this.read(day, day === first) }));
    });
    return [...current.flat(), ...others];
  }

  /**
   * Whether compaction has created further segments for a day since that day was first listed, and lines of the segments
   * that it has merged may be missing from the page: the day is large, or a listed segment was gone.
   */
  async hasMoved(): Promise<boolean> {
    const moved = [...this.moving].map(async ([day, { known, later, hasGone }]) => {
      const merged = (await (hasGone ? allTargets(this.bucket, day) : later)) ?? [];
      return merged.some(({ key }) => !known.has(key));
    });
    return (await Promise.all(moved)).includes(true);
  }

  /** @param isFirst whether the list begins with this past day; all listings of the day are then sent at once. */
  private async read(day: Day, isFirst = false): Promise<Source[]> {
    const spans = this.busySpans(day);
    const listLarge = () => Promise.all([this.newest(day, spans), allTargets(this.bucket, day)]);
    const large = isFirst || spans ? listLarge() : undefined;
    large?.catch(() => undefined);
    if (!spans) {
      const { segments, isWhole } = await firstPage(this.bucket, day);
      if (isWhole) {
        this.watch(day, segments);
        const few = isFew(segments);
        return segments.flatMap((segment) => this.segment(day, segment, few));
      }
    }
    const [newest, created] = await (large ?? listLarge());
    this.watch(day, created, this.later(day));
    return [...newest, ...created.flatMap((segment) => this.segment(day, segment))];
  }

  private watch(day: Day, segments: readonly ListedObject[], later?: Promise<readonly ListedObject[]>): void {
    if (!mayBeCompacted(this.bucket, day)) return;
    const merged = segments.map(({ key }) => key).filter((key) => parseName(day, key).origin === 'target');
    this.moving.set(day, { known: new Set(merged), later, listings: 0, hasGone: false });
  }

  /** Lists merged segments again while other segments are read, so that `hasMoved` needn't wait. */
  private later(day: Day): Promise<readonly ListedObject[]> {
    const later = allTargets(this.bucket, day);
    later.catch(() => undefined);
    return later;
  }

  /** The spans to list if the list begins now, and the day was found to be large before; else undefined. */
  private busySpans(day: Day): readonly number[] | undefined {
    const { limit, filter: { customerId } } = this.query;
    const { storeTime } = this.bucket;
    const isFromNow = this.until >= storeTime && endOf(day) > storeTime && customerId === undefined;
    return isFromNow ? this.busyDays.spansWith(day, limit, FIRST_WINDOWS_MS, storeTime) : undefined;
  }

  private async newest(day: Day, spans: readonly number[] = FIRST_WINDOWS_MS): Promise<Source[]> {
    const sources = [directoryOf(day), slowPrefix(day)].map((prefix) => {
      const end = Math.min(this.until, endOf(day) - 1, this.bucket.storeTime + DAY_MS) + toleranceOf(day, prefix) + 1;
      return this.windows(day, prefix, end, spans).read();
    });
    return (await Promise.all(sources)).flat();
  }

  /**
   * The segments of a day with names of times before `end`. Lists one window for each length, all at once: the first
   * ends at `end`, each other one where the one before begins. A window with too many segments is left for later, in
   * shorter windows.
   */
  private windows(day: Day, prefix: string, end: number, spans: readonly number[]): ListedWindows {
    const tolerance = toleranceOf(day, prefix);
    const earliest = Math.max(endOf(day) - DAY_MS, this.query.filter.from?.getTime() ?? -Infinity) - tolerance;
    return {
      size: undefined,
      latest: Math.min(end - 1 + tolerance, endOf(day) - 1),
      read: async () => {
        const moving = this.moving.get(day);
        if (moving) moving.listings += 1;
        const listed = await Promise.all(this.spread(end, spans, earliest).map((window, index) => this.list(day, prefix, window, index > 0 ? PAGE_OBJECTS : MAX_OBJECTS)));
        if (moving && --moving.listings === 0) moving.later = this.later(day);
        if (prefix === directoryOf(day)) this.noteRate(day, listed[0]);
        const long = listed.findIndex(({ segments }) => !segments);
        if (long === 0) return [this.windows(day, prefix, end, [shorterSpan(spans)])];
        const whole = long < 0 ? listed : listed.slice(0, long);
        const { begin = end, span = FINEST_MS, segments: last = [] } = whole.at(-1) ?? {};
        const rest = begin <= earliest ? [] : [this.windows(day, prefix, begin, [nextSpan(span, last.length)])];
        return [...whole.flatMap(({ segments = [] }) => segments.flatMap((segment) => this.segment(day, segment))), ...rest];
      },
    };
  }

  /** @param newest the window before the end of the list. Without `segments`, it has at least MAX_OBJECTS of them. */
  private noteRate(day: Day, newest?: Window & { segments?: ListedObject[] }): void {
    const { storeTime } = this.bucket;
    if (!newest || newest.end <= storeTime || newest.begin >= storeTime) return;
    this.busyDays.note(day, newest.segments?.length ?? MAX_OBJECTS, newest.begin, storeTime);
  }

  /**
   * A window begins at a multiple of an eighth of its length, so that it takes few requests if the store lists by
   * prefix only. The first window of the current day goes on to the end of the day, in case the clock of another
   * machine is ahead.
   */
  private spread(end: number, spans: readonly number[], earliest: number): Window[] {
    const windows: Window[] = [];
    for (const span of spans) {
      const to = windows.at(-1)?.begin ?? end;
      if (to <= earliest) break;
      const step = stepOf(span);
      windows.push({ begin: Math.ceil((Math.min(to, this.bucket.storeTime) - span) / step) * step, end: to, span });
    }
    return windows;
  }

  /** @param limit if the window has this many segments, `segments` is undefined, unless the window is the shortest. */
  private async list(day: Day, prefix: string, window: Window, limit: number): Promise<Window & { segments?: ListedObject[] }> {
    const { begin, end, span } = window;
    // Nothing has a later time yet, so a wide end changes only how many requests a store takes that lists by prefix.
    const listedEnd = end > this.bucket.storeTime ? wideEnd(end) : Math.ceil(end / stepOf(span)) * stepOf(span);
    const isShortest = span === FINEST_MS;
    const segments = await listNamed(this.bucket, prefix, begin, listedEnd, isShortest ? Infinity : limit);
    if (!isShortest && segments.length >= limit) return window;
    const isWithin = ({ key, size }: ListedObject): boolean => {
      const { origin, time } = parseName(day, key);
      return size > 0 && origin === 'original' && time >= begin && time < end;
    };
    return { ...window, segments: segments.filter(isWithin) };
  }

  private segment(day: Day, segment: ListedObject, isFew = false): Source[] {
    const { key, size } = segment;
    const { origin, isSlow, time } = parseName(day, key);
    const latest = endOf(day) - 1;
    if (origin === 'target' && size > WHOLE_BYTES) {
      const { limit, filter: { customerId } } = this.query;
      const customer = customerId === undefined ? undefined : new CustomerLines(day.kind, customerId);
      return [new SortedSource(this.bucket, segment, { latest, until: this.until, disorderMs: isSlow ? 0 : 2 * NAME_TOLERANCE_MS, limit, customer })];
    }
    const read = async (onLine: OnLine): Promise<Source[]> => {
      try {
        for await (const { upload, length } of allLines(this.bucket, key)) onLine(upload, length);
      } catch (error) {
        if (!(error instanceof SegmentGoneError)) throw error;
        const moving = this.moving.get(day);
        if (moving) moving.hasGone = true;
      }
      return [];
    };
    if (isFew || origin !== 'original') return [{ size, latest, read }];
    const tolerance = isSlow ? 0 : NAME_TOLERANCE_MS;
    return time - tolerance > this.until ? [] : [{ size, latest: Math.min(latest, time + tolerance), read }];
  }
}

const toleranceOf = (day: Day, prefix: string): number => (prefix === slowPrefix(day) ? 0 : NAME_TOLERANCE_MS);

const stepOf = (span: number): number => span / 8;

const shorterSpan = ([span = FINEST_MS]: readonly number[]): number => Math.max(FINEST_MS, span / 16);

/** The length of the window after one with `count` segments that probably takes one request. */
function nextSpan(span: number, count: number): number {
  const factor = 2 ** Math.floor(Math.log2(PAGE_OBJECTS / Math.max(1, count)));
  return Math.min(MAX_WINDOW_MS, Math.max(FINEST_MS, span * Math.min(4, factor)));
}
