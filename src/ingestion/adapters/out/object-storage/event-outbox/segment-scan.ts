import { DAY_MS, MINUTE_MS } from '../../../../../common/durations.js';
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

/** A segment whose name has a time longer ago than this, by the store's clock, exists or will be announced as late. */
export const SETTLED_MS = MAX_LATE_MS + 20_000;
/** Segments are listed if the times in their names are at most this far ahead of the store's clock. */
export const AHEAD_MS = 60_000;
/** A segment written within this time of the time in its name is assumed not to be announced as late. */
const MAYBE_ANNOUNCED_MS = 10_000;
/**
 * A confirmed segment that may still be announced is remembered for at least this long after its write, or after the
 * confirmation if it was announced.
 */
export const ANNOUNCED_WITHIN_MS = 5 * MINUTE_MS;
const MAX_SEGMENTS = 5_000;
/** The longest unit to whose multiples a listed span of time is widened, so that few key prefixes cover the span. */
const MAX_UNIT_MS = FINEST_MS * 16 ** 2;
const MAX_WASTED = 10_000;
const LINE_BYTES = 600;

interface Segment {
  readonly key: string;
  readonly size: number;
  /** The time in the name; -Infinity for a segment that compaction created, because its events are delivered first. */
  readonly time: number;
  /** When the segment was written, in ms since 1970 by the store's clock; 0 for one that compaction created. */
  readonly writtenAt: number;
}

/**
 * Lists a day's non-empty segments of uploads that weren't slow, with times in their names from `begin` to `end`
 * (excluded), in milliseconds since 1970. Yields undefined for each other listed object, so that the caller can count
 * them.
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
 * Finds the segments of one kind of uploads whose events aren't confirmed, in the order of the times in their names.
 * Leaves segments of slow uploads, and others that were announced as late, to `LateSource`.
 *
 * While the events of a day are delivered, a hold (`DayHold`) keeps compaction from the day. The events of segments
 * that compaction created before the hold are delivered first.
 */
export class SegmentScan implements EventSource {
  private created: Segment[] = [];
  private segments: Segment[] = [];
  /** The last listing found the unconfirmed segments with times before this one, in milliseconds since 1970. */
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
    private readonly isAnnounced: (segment: string) => boolean,
    private readonly logger: StorageLogger,
  ) {}

  get since(): number | undefined {
    const [first] = this.queue;
    return first && Math.max(first.time, this.position.watermark);
  }

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
   * Lists the unconfirmed segments from the watermark on, and moves the watermark forward.
   *
   * @throws errors of the bucket and of `DayHold.take`.
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
      const segments = nextToRead(queue, at, batch, ({ size }) => ({ events: size / LINE_BYTES, bytes: size }));
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

  /** Renews the holds on days that were written over a minute ago, and forgets lost ones. Never rejects. */
  async renew(): Promise<void> {
    for (const [date, hold] of this.holds) {
      await hold.check().catch((error: unknown) => {
        if (error instanceof HoldLostError) this.holds.delete(date);
      });
    }
  }

  /** Releases the holds on days. Never rejects: a hold expires after ten minutes anyway. */
  async release(): Promise<void> {
    await this.releaseWhere(() => true);
  }

  /** Drops listed segments whose events `LateSource` has delivered since the listing. */
  private dropConfirmed(): void {
    this.segments = this.segments.filter(({ key }) => !isConfirmed(this.cursor, key));
    this.advance();
  }

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

  private async isRemoved({ key }: Segment): Promise<boolean> {
    const day = dayOf(key);
    if (!day || !mayBeCompacted(this.bucket, day)) return true;
    await this.renew();
    if (this.holds.has(day.date)) return true;
    await this.enter(day);
    return false;
  }

  private async enter(day: Day): Promise<void> {
    if (!mayBeCompacted(this.bucket, day) || this.holds.has(day.date) || stateOf(day, this.position) === 'confirmed') return;
    const hold = await DayHold.take(this.bucket, day, this.logger);
    const known = new Set([...this.position.targets, ...this.created.map(({ key }) => key)]);
    for (const { key, size } of await targets(this.bucket, day)) {
      if (!parseName(day, key).isSlow && !known.has(key)) this.created.push({ key, size, time: -Infinity, writtenAt: 0 });
    }
    this.holds.set(day.date, hold);
  }

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

  /** Where a listing begins: at the watermark; one before yesterday is moved on to a day with unconfirmed events. */
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
