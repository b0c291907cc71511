import { HOUR_MS, MINUTE_MS } from '../../../../common/durations.js';
import { MIB } from '../../../../common/sizes.js';
import { uuidAt } from '../../../../common/uuid.js';
import type { Bucket, ListedObject, ReadObject } from './bucket.js';
import type { Plan } from './compaction-plan.js';
import { listSegments, markedSegmentIds } from './day-segments.js';
import { isPartlyConfirmed } from './event-outbox/cursor.js';
import { readAhead } from './read-ahead.js';
import { checkSegment } from './segment-check.js';
import { type Day, DAY_GRACE_MS, directoryOf, endOf, parseName, targetName, uploadIdIn } from './segment-names.js';

/** The writer of a segment younger than this may still retry or undo the write, so the segment isn't merged yet. */
const MIN_AGE_MS = 10 * MINUTE_MS;
/** A segment with an idempotency key isn't merged at a lesser age: the key's claim names the segment for 24 hours. */
const KEYED_AGE_MS = 25 * HOUR_MS;
const LARGE_BYTES = 16 * MIB;
const MAX_TARGET_BYTES = 64 * MIB;
const MAX_SOURCES = 10_000;

export interface PlannerOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onRead?: () => void;
  /**
   * The keys of segments that were read, and can't be merged yet because of an `Idempotency-Key`. A later compaction
   * that gets the same set doesn't read these segments again until it may merge them.
   */
  readonly waiting?: Set<string>;
}

export interface MalformedSegment {
  readonly key: string;
  readonly problem: string;
}

/**
 * Plans the compaction of a day: selects small segments (objects with index lines) to merge next. Writes nothing. Holds
 * in memory at most 32 MiB of segments, and the list of the day's segments.
 *
 * These segments are not merged:
 *
 * - Segments that are empty, malformed, 16 MiB or longer, or at most ten minutes old.
 * - Segments with a name that no upload gives.
 * - Segments whose uploads have a marker in `staging/`, because a sweeper may still have to find their lines there.
 * - All segments of a day while the receiver may have confirmed the events of only some of them. The event outbox
 *   remembers which segments were confirmed, so confirmed and unconfirmed lines must not be merged.
 * - Segments with a line under an `Idempotency-Key`, until they are over 25 hours old and the day ended over 25 hours
 *   ago.
 */
export class CompactionPlanner {
  private readonly malformedByKey = new Map<string, MalformedSegment>();
  private readonly waiting: Set<string>;
  private readonly taken = new Set<string>();

  constructor(
    private readonly bucket: Bucket,
    private readonly day: Day,
    private readonly options: PlannerOptions,
  ) {
    this.waiting = options.waiting ?? new Set();
  }

  get malformed(): readonly MalformedSegment[] {
    return [...this.malformedByKey.values()];
  }

  /**
   * Resolves to the plan of the next merge; undefined if no two segments can be merged now. Rejects with errors of the
   * bucket, with the reason of the signal, and if the cursor of the event outbox is damaged.
   */
  async nextPlan(): Promise<Plan | undefined> {
    if (await isPartlyConfirmed(this.bucket, this.day)) return undefined;
    const [slow, others] = [new Candidates(), new Candidates()];
    for await (const segment of listSegments(this.bucket, this.day, this.options.signal)) {
      if (!this.mayBeMerged(segment)) continue;
      const { origin, isSlow } = parseName(this.day, segment.key);
      if (origin === 'original') (isSlow ? slow : others).add(segment);
    }
    // Markers are listed after the segments: a marker is created before its segment, so none still needed is missed.
    const marked = await markedSegmentIds(this.bucket);
    return (await this.planOf(others.without(marked), false)) ?? this.planOf(slow.without(marked), true);
  }

  leaveOut({ sources }: Plan): void {
    for (const key of sources) this.taken.add(key);
  }

  private async planOf(candidates: Iterable<ListedObject>, isSlow: boolean): Promise<Plan | undefined> {
    const sources: string[] = [];
    let bytes = 0;
    for await (const [segment, object] of readAhead(this.bucket, candidates, this.options.signal)) {
      if (object?.bytes.length !== segment.size || !(await this.isSound(segment, object))) continue;
      if (sources.length === MAX_SOURCES || bytes + segment.size > MAX_TARGET_BYTES) break;
      sources.push(segment.key);
      bytes += segment.size;
    }
    return sources.length < 2 ? undefined : { target: this.newTarget(isSlow), sources, bytes };
  }

  /**
   * A new key for a merged segment. Its time is at least DAY_GRACE_MS after the end of the day, because segments of
   * uploads have earlier times. The store's time may be earlier than that, although the day was found to be over, if
   * the store has several clocks.
   */
  private newTarget(isSlow: boolean): string {
    const time = Math.max(this.bucket.storeTime, endOf(this.day) + DAY_GRACE_MS);
    return directoryOf(this.day) + targetName(uuidAt(new Date(time)), isSlow);
  }

  private mayBeMerged(segment: ListedObject): boolean {
    const { key, size, ageMs } = segment;
    if (size === 0 || size >= LARGE_BYTES || ageMs <= MIN_AGE_MS) return false;
    return !this.malformedByKey.has(key) && !this.taken.has(key) && !(this.waiting.has(key) && this.mayBeClaimed(segment));
  }

  private mayBeClaimed({ ageMs }: ListedObject): boolean {
    return ageMs <= KEYED_AGE_MS || this.bucket.storeTime <= endOf(this.day) + KEYED_AGE_MS;
  }

  private async isSound(segment: ListedObject, { bytes }: ReadObject): Promise<boolean> {
    this.options.onRead?.();
    const { problem, isKeyed } = await checkSegment(bytes);
    if (problem !== undefined) this.malformedByKey.set(segment.key, { key: segment.key, problem });
    else if (isKeyed) this.waiting.add(segment.key);
    return problem === undefined && !(isKeyed && this.mayBeClaimed(segment));
  }
}

class Candidates {
  private readonly segments: ListedObject[] = [];
  private isOrdered = true;

  add(segment: ListedObject): void {
    const last = this.segments.at(-1);
    if (last && last.key >= segment.key) this.isOrdered = false;
    this.segments.push(segment);
  }

  /**
   * Yields the segments without the given ids (`uploadIdIn`), each once, in the order of the keys. Keys are ASCII, so
   * their order as texts is that of their bytes.
   */
  *without(ids: ReadonlySet<string>): Generator<ListedObject> {
    const once = () => [...new Map(this.segments.map((segment) => [segment.key, segment])).values()];
    const ordered = this.isOrdered ? this.segments : once().sort((one, other) => (one.key < other.key ? -1 : 1));
    for (const segment of ordered) if (!ids.has(uploadIdIn(segment.key))) yield segment;
  }
}
