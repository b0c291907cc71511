import { DAY_MS } from '../../../../../common/durations.js';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import type { UploadKind } from '../../../../domain/upload.js';
import type { Bucket } from '../bucket.js';
import { dateAt, type Day, dayOf, directoryOf, endOf, FINEST_MS, NAME_TOLERANCE_MS, parseName, prefixesBetween } from '../segment-names.js';
import { DayHold, HoldLostError } from '../stored-uploads/day-hold.js';
import { daysOf, mayBeCompacted, targets } from '../stored-uploads/day-listing.js';
import { type BatchDraft, type EventSource, nextToRead } from './batch.js';
import type { CautiousClock } from './cautious-clock.js';
import { advance, type Cursor, daysBetween, isConfirmed, isTimed, type Position, shortName, stateOf } from './cursor.js';
import { MAX_LATE_MS } from './late-segments.js';
import type { UnconfirmedLineReader } from './unconfirmed-line-reader.js';

/**
 * If the time in the name of a segment that uploads write is longer ago than this, in milliseconds by the store's
 * clock, the segment either exists already, or will be announced as late. Includes a margin of 20 s.
 */
export const SETTLED_MS = MAX_LATE_MS + 20_000;
/** Segments are listed if the times in their names are at most this far ahead of the store's clock, in milliseconds. */
export const AHEAD_MS = 60_000;
/**
 * It is assumed that a segment of uploads that weren't slow was announced as late only if it was written more than this
 * long before or after the time in its name, in milliseconds. Includes a margin.
 */
const MAYBE_ANNOUNCED_MS = 10_000;
/**
 * How long at least, in milliseconds, the cursor remembers that a segment's events were confirmed, because the segment
 * may still be announced as late (`Cursor.late`). The time is counted from the segment's write, or from the
 * confirmation if the events were delivered after an announcement. If another process announces the segment even later
 * (`announceWritten`), the events may be delivered again.
 */
export const ANNOUNCED_WITHIN_MS = 5 * 60_000;
/**
 * The approximate maximum number of listed segments of one kind in memory. They are held until their events are
 * confirmed. Segments that compaction created don't count.
 */
const MAX_SEGMENTS = 5_000;
/**
 * A listed span of time is widened to multiples of a unit, so that few prefixes cover it. This is the largest unit, in
 * milliseconds. In a store with many segments, smaller units are used.
 */
const MAX_UNIT_MS = FINEST_MS * 16 ** 2;
/**
 * If a listing returns more unwanted objects than this, it is repeated with a smaller unit, so that it covers less time
 * beyond the wanted span, unless the unit is FINEST_MS already. Most unwanted objects are segments whose events were
 * confirmed before.
 */
const MAX_WASTED = 10_000;
/** About how long an index line is, in bytes. */
const LINE_BYTES = 600;

/** A listed segment whose events aren't all confirmed. */
interface Segment {
  readonly key: string;
  readonly size: number;
  /**
   * The time in the segment's name, in milliseconds since 1970. -Infinity for a segment that compaction created,
   * because its events are delivered before those of other segments.
   */
  readonly time: number;
  /**
   * When the segment was written, in milliseconds since 1970 by the store's clock. 0 for a segment that compaction
   * created.
   */
  readonly writtenAt: number;
}

/**
 * Lists the segments of a day that were written by uploads (not by slow ones) and aren't empty, if the times in their
 * names are from `begin` (included) to `end` (excluded), in milliseconds since 1970, and at most 10 s outside of the
 * day. Yields undefined for each other object in the listing, so that the caller can count these objects too.
 */
export async function* timedSegments(bucket: Bucket, day: Day, begin: number, end: number, unitMs = MAX_UNIT_MS): AsyncGenerator<Segment | undefined> {
  const first = Math.max(begin, endOf(day) - DAY_MS - NAME_TOLERANCE_MS);
  const last = Math.min(end, endOf(day) + NAME_TOLERANCE_MS);
  if (first >= last) return;
  for (const prefix of prefixesBetween(Math.floor(first / unitMs) * unitMs, Math.ceil(last / unitMs) * unitMs)) {
    for await (const { key, size, ageMs } of bucket.list(directoryOf(day) + prefix)) {
      const { time } = parseName(day, key);
      const isWanted = isTimed(day, key) && size > 0 && time >= first && time < last;
      yield isWanted ? { key, size, time, writtenAt: bucket.storeTime - ageMs } : undefined;
    }
  }
}

/**
 * Finds the segments of one kind whose events aren't confirmed, in the order of the times in their names. Leaves the
 * segments of slow uploads, and others that were announced as late, to `LateSource`. Keeps about 5,000 of these
 * segments in memory at most, besides those that compaction created.
 *
 * While the events of a day are delivered, a hold (`DayHold`) keeps compaction from the day, if compaction may have
 * begun there. If compaction had created segments before the hold, their events are delivered first.
 */
export class SegmentScan implements EventSource {
  /** Segments that compaction created and whose events aren't all confirmed. */
  private created: Segment[] = [];
  private segments: Segment[] = [];
  /**
   * The last listing of segments was made at `listedAt`, and has found all unconfirmed ones with times before
   * `coveredTo` in their names. Both are in milliseconds since 1970, by the store's clock.
   */
  private coveredTo = -Infinity;
  private listedAt = -Infinity;
  private unitMs = MAX_UNIT_MS;
  private readonly holds = new Map<string, DayHold>();

  constructor(
    private readonly bucket: Bucket,
    private readonly clock: CautiousClock,
    private readonly kind: UploadKind,
    private readonly cursor: Cursor,
    private readonly reader: UnconfirmedLineReader,
    /**
     * Whether a segment was announced as late and has unconfirmed events, which `LateSource` delivers instead of this
     * scan.
     */
    private readonly isAnnounced: (segment: string) => boolean,
    private readonly logger: StorageLogger,
  ) {}

  get since(): number | undefined {
    const [first] = this.queue;
    return first && Math.max(first.time, this.position.watermark);
  }

  /**
   * Whether the last listing stopped before it reached the present time, because it had found the maximum number of
   * segments (MAX_SEGMENTS).
   */
  get isBehind(): boolean {
    return this.coveredTo < this.listedAt;
  }

  private get queue(): readonly Segment[] {
    return this.created.length > 0 ? [...this.created, ...this.segments] : this.segments;
  }

  private get position(): Position {
    return this.cursor.positions[this.kind];
  }

  /**
   * Lists segments whose events aren't all confirmed and whose names have times at or after the watermark, about
   * MAX_SEGMENTS at most. They replace those of the last listing, but not those that compaction created. Then moves the
   * watermark forward. Throws errors of the bucket and of `DayHold.take`.
   */
  async list(): Promise<void> {
    while (!(await this.tryList())) this.unitMs /= 16;
    this.advance();
  }

  async fill(batch: BatchDraft): Promise<boolean> {
    this.dropConfirmed();
    const queue = this.queue.filter(({ key }) => !this.isAnnounced(key));
    for (let at = 0; at < queue.length; ) {
      if (batch.room === 0) return false;
      const segments = nextToRead(queue, at, batch.room, ({ size }) => size / LINE_BYTES);
      const readings = await Promise.all(segments.map(({ key, size }) => this.reader.read(key, size, batch.room)));
      for (const [index, segment] of segments.entries()) {
        const reading = readings[index];
        if (reading?.isGone && !(await this.isRemoved(segment))) {
          // The segment is missing: compaction may have moved its lines to a segment that is now first in the queue.
          // The empty action makes the caller collect again, even if the batch has no event.
          batch.onceConfirmed(() => undefined);
          return false;
        }
        const onOver = () => { this.remember(segment); };
        const isConfirmedElsewhere = (uploadId: string) => segment.time === -Infinity && isConfirmed(this.cursor, uploadId);
        if (reading && !this.reader.add(batch, segment.key, reading, onOver, isConfirmedElsewhere)) return false;
      }
      at += segments.length;
    }
    return true;
  }

  /**
   * Checks the holds, which keep compaction from the days whose events are being delivered, and renews those that are
   * over a minute old. Forgets lost ones. Never rejects.
   */
  async renew(): Promise<void> {
    for (const [date, hold] of this.holds) {
      await hold.check().catch((error: unknown) => {
        if (error instanceof HoldLostError) this.holds.delete(date);
      });
    }
  }

  /** Releases the holds, so that compaction can go on. Never rejects: a hold expires after ten minutes anyway. */
  async release(): Promise<void> {
    await this.releaseWhere(() => true);
  }

  /**
   * Drops the segments whose events `LateSource` has delivered, and the receiver confirmed, since this scan listed
   * them.
   */
  private dropConfirmed(): void {
    this.segments = this.segments.filter(({ key }) => !isConfirmed(this.cursor, key));
    this.advance();
  }

  /**
   * Moves the watermark forward to the earliest of three times: the time of the first segment whose events aren't all
   * confirmed, the end of the listed span, and the earliest time that the name of a new segment may still have.
   * Releases the holds of days whose events were all confirmed.
   */
  private advance(): void {
    advance(this.position, Math.min(this.queue[0]?.time ?? Infinity, this.coveredTo, this.listedAt - SETTLED_MS));
    void this.releaseWhere((date) => stateOf({ kind: this.kind, date }, this.position) === 'confirmed');
  }

  private async releaseWhere(isOver: (date: string) => boolean): Promise<void> {
    for (const [date, hold] of this.holds) {
      if (!isOver(date)) continue;
      this.holds.delete(date);
      await hold.release().catch(() => undefined);
    }
  }

  private remember(segment: Segment): void {
    const waiting = segment.time === -Infinity ? this.created : this.segments;
    const at = waiting.indexOf(segment);
    if (at >= 0) waiting.splice(at, 1);
    if (waiting === this.created) {
      this.position.targets.add(segment.key);
    } else {
      const short = shortName(segment.key);
      this.position.confirmed.add(short);
      const until = segment.writtenAt + ANNOUNCED_WITHIN_MS;
      const mayBeAnnounced = Math.abs(segment.writtenAt - segment.time) > MAYBE_ANNOUNCED_MS && until > this.clock.time;
      if (mayBeAnnounced) this.cursor.late.set(short, until);
    }
    this.advance();
  }

  /**
   * Whether a listed segment is missing because its uploads were removed. If compaction may have moved its lines
   * instead, takes a hold on the day, and resolves to false. The events are then delivered from the segment that has
   * the lines now.
   */
  private async isRemoved({ key }: Segment): Promise<boolean> {
    const day = dayOf(key);
    if (!day || !mayBeCompacted(this.bucket, day)) return true;
    await this.renew();
    if (this.holds.has(day.date)) return true;
    await this.enter(day);
    return false;
  }

  /**
   * Takes a hold that keeps compaction from a day, if compaction may have begun there. Adds the segments that
   * compaction has created for this day so far to the queue, except those of slow uploads and those whose events were
   * all confirmed. Does nothing if this scan has a hold on the day, or if the day's events were all confirmed.
   */
  private async enter(day: Day): Promise<void> {
    if (!mayBeCompacted(this.bucket, day) || this.holds.has(day.date) || stateOf(day, this.position) === 'confirmed') return;
    const hold = await DayHold.take(this.bucket, day, this.logger);
    const known = new Set([...this.position.targets, ...this.created.map(({ key }) => key)]);
    for (const { key, size } of await targets(this.bucket, day)) {
      if (!parseName(day, key).isSlow && !known.has(key)) this.created.push({ key, size, time: -Infinity, writtenAt: 0 });
    }
    this.holds.set(day.date, hold);
  }

  /**
   * Lists the segments once. Resolves to false if the listing returned more than MAX_WASTED unwanted objects, and must
   * be repeated with a smaller `unitMs`.
   */
  private async tryList(): Promise<boolean> {
    const now = this.clock.time;
    const end = now + AHEAD_MS;
    const found = new Map<string, Segment>();
    let listed = 0;
    let covered = await this.beginning(now);
    while (covered < end && found.size < MAX_SEGMENTS) {
      const begin = covered;
      covered = Math.min(end, nextMidnight(begin));
      for (const day of daysBetween(this.kind, begin, covered)) {
        await this.enter(day);
        for await (const segment of timedSegments(this.bucket, day, begin, covered, this.unitMs)) {
          listed += 1;
          if (segment && !isConfirmed(this.cursor, segment.key)) found.set(segment.key, segment);
          if (found.size >= MAX_SEGMENTS && segment && segment.time > begin) {
            covered = segment.time;
            break;
          }
          if (listed - found.size > MAX_WASTED && this.unitMs > FINEST_MS) return false;
        }
      }
    }
    if (listed * 32 < MAX_WASTED) this.unitMs = Math.min(MAX_UNIT_MS, this.unitMs * 16);
    this.segments = [...found.values()].filter(({ time }) => time < covered).sort((one, other) => one.time - other.time);
    this.coveredTo = covered;
    this.listedAt = now;
    return true;
  }

  /**
   * The time from which on segments are listed, by the times in their names, in milliseconds since 1970. It is the
   * watermark, unless the watermark is before yesterday (UTC). In that case, days without unconfirmed events are
   * skipped: the listing begins 10 s before the first day that may have such events, or 10 s before today, and not
   * before the watermark.
   */
  private async beginning(now: number): Promise<number> {
    const { watermark } = this.position;
    const startOfToday = Date.parse(dateAt(now));
    if (watermark + DAY_MS > startOfToday) return watermark;
    const days = (await daysOf(this.bucket, this.kind)).filter((day) => stateOf(day, this.position) !== 'confirmed');
    const starts = [...days.map((day) => endOf(day) - DAY_MS), startOfToday];
    return Math.max(watermark, Math.min(...starts) - NAME_TOLERANCE_MS);
  }
}

const nextMidnight = (time: number): number => Date.parse(dateAt(time)) + DAY_MS;
