import type { UploadKind } from '../../../domain/upload.js';
import { type Bucket, type ListedObject, ObjectExistsError } from './bucket.js';
import { isClosed } from './compaction-days.js';
import { DamagedPlanError, type DayPlan, NO_PLAN, type Plan, PLAN_PATIENCE_MS, planKey, readDayPlan, sizeOf } from './compaction-plan.js';
import { CompactionPlanner, type MalformedSegment, type PlannerOptions } from './compaction-planner.js';
import { listSegments } from './day-segments.js';
import { isPartlyConfirmed } from './event-outbox/cursor.js';
import { FENCE } from './keys.js';
import { removeOldFences } from './old-fences.js';
import { readAhead } from './read-ahead.js';
import type { Day } from './segment-names.js';

export interface CompactionOptions extends PlannerOptions {
  readonly dryRun?: boolean;
}

export interface DayReport extends Day {
  readonly sources: number;
  readonly targets: number;
  readonly bytes: number;
  readonly fences: number;
  readonly malformed: readonly MalformedSegment[];
  /**
   * Whether another process seems to compact the day or to have a hold on it (`DayHold`), so that small segments may be
   * left. Always false in a dry run.
   */
  readonly isBusy: boolean;
}

/**
 * Merges the small segments (objects with index lines) of a day into a few large ones, if the day ended at least ten
 * minutes ago by the store's clock. Otherwise, only reads the day's plan. Holds in memory at most 32 MiB of segments,
 * the parts of a target being sent, and the list of the day's segments.
 *
 * Any number of processes may compact a day at once. Each may crash at any step, or stall for up to 24 hours. Fences,
 * which keep a stalled process from creating its target, are removed after that time. The steps:
 *
 * 1. Create a plan at `compaction/kind=K/date=D`. It names the segments to merge, its sources, and the segment to
 *    create, its target. A process creates a plan only if none exists, and replaces only the version that it has read.
 * 2. Create the target from all bytes of the sources, unless it exists or a source is missing.
 * 3. When the target exists and has the sources' total size, remove the sources.
 * 4. When the sources are gone, replace the plan by an empty object. The object isn't removed, because a process that
 *    stalled just before this step could remove the next plan.
 *
 * A process that finds a plan continues it: at once if the target exists, and otherwise when the plan is ten minutes
 * old. Two processes may carry out the same plan without harm, because a target is never a source. A process that
 * stalled while another one created the target finds the target. A process that stalled while removing sources then
 * only removes sources that are already gone.
 *
 * A plan whose target doesn't exist is dropped if a source is missing, if the total size of the sources has changed, or
 * if the receiver may have confirmed the events of only some segments of the day. First a fence (an empty object) takes
 * the place of the target. It keeps a process that stalled after reading all sources from creating the target.
 *
 * So compaction never loses a line. A line exists twice between steps 2 and 3, and afterwards only if the writer of a
 * segment stalled for ten minutes before it retried the write.
 *
 * A removal of uploads rewrites segments, and the event outbox reads them. Meanwhile, a hold in place of the plan keeps
 * compaction from the day (stored-uploads/day-hold.ts). A process that takes a hold and finds a plan completes the plan
 * if its target exists, and otherwise ends it by a fence in place of the target.
 *
 * If uploads have failed, their writer overwrites their segment with a fence. If the segment was merged before, the
 * lines of these uploads stay in the target.
 *
 * A target's name sorts after the names of its sources, so a listing that misses sources because they were just removed
 * still reaches the target.
 *
 * Empty segments are removed after 24 hours, with few exceptions (`removeOldFences`).
 *
 * @throws DamagedPlanError.
 * @throws an Error if the cursor of the event outbox is damaged, if sources or their target don't have the size in the
 *   plan, or if a removed source still exists.
 * @throws errors of the bucket; the reason of the signal. A later compaction does the rest, except where something is
 *   damaged.
 */
export function compactDay(bucket: Bucket, kind: UploadKind, date: string, options: CompactionOptions = {}): Promise<DayReport> {
  return new DayCompaction(bucket, { kind, date }, options).run();
}

class DayCompaction {
  private readonly planner: CompactionPlanner;
  private sources = 0;
  private targets = 0;
  private bytes = 0;

  constructor(
    private readonly bucket: Bucket,
    private readonly day: Day,
    private readonly options: CompactionOptions,
  ) {
    this.planner = new CompactionPlanner(bucket, day, options);
  }

  async run(): Promise<DayReport> {
    let fences = 0;
    let isBusy = false;
    // The plan is read before the store's time is used, because that time is known only after an answer of the store.
    const begun = await this.readPlan();
    if (isClosed(this.day.date, this.bucket.storeTime)) {
      fences = await removeOldFences(this.bucket, this.day, this.options);
      if (this.options.dryRun) await this.look(begun);
      else isBusy = !(await this.compact(begun));
    }
    const { day, sources, targets, bytes, planner } = this;
    return { ...day, sources, targets, bytes, fences, malformed: planner.malformed, isBusy };
  }

  private async look(begun: DayPlan): Promise<void> {
    for (let plan = begun.plan ?? (await this.planner.nextPlan()); plan; plan = await this.planner.nextPlan()) {
      this.planner.leaveOut(plan);
      this.count(plan);
    }
  }

  private async compact(begun: DayPlan): Promise<boolean> {
    for (let found = begun; ; found = await this.readPlan()) {
      let { plan, version } = found;
      if (found.hold && found.ageMs < PLAN_PATIENCE_MS) return false;
      if (plan) {
        if (found.ageMs < PLAN_PATIENCE_MS && (await sizeOf(this.bucket, plan.target)) === undefined) return false;
      } else {
        plan = await this.planner.nextPlan();
        if (!plan) {
          // An expired hold is emptied, or it would bring compaction back to this day in every turn.
          if (found.hold) await this.write(NO_PLAN, version);
          return true;
        }
        version = await this.write(Buffer.from(JSON.stringify(plan)), version);
      }
      if (version === undefined || !(await this.carryOut(plan, version))) return false;
    }
  }

  private async carryOut(plan: Plan, version: string): Promise<boolean> {
    const segments = await this.segmentsOf(plan);
    if (!segments.has(plan.target)) {
      const sources = plan.sources.map((key) => segments.get(key)).filter((source) => source !== undefined);
      const isWhole = sources.length === plan.sources.length && plan.bytes === sources.reduce((sum, { size }) => sum + size, 0);
      // The planner has checked for partly confirmed events too. But before the plan was written, a process that
      // delivers events may have taken and released a hold. In S3, the empty object that a hold leaves has the same
      // version as the one before the hold.
      if (isWhole && !(await isPartlyConfirmed(this.bucket, this.day))) {
        if (!(await this.make(plan, sources))) return false;
      } else {
        // The fence keeps a process that has read all sources from creating the target later, with lines removed since.
        await this.bucket.create(plan.target, FENCE);
      }
    }
    const size = await sizeOf(this.bucket, plan.target);
    // An empty target is a fence: this plan is dropped, or was ended by a process that needs a hold on the day.
    if (size === 0) return (await this.write(NO_PLAN, version)) !== undefined;
    if (size !== plan.bytes) {
      throw new Error(`${plan.target} has ${size ?? 'no'} bytes, and its sources had ${plan.bytes}; none of them was removed.`);
    }
    this.options.signal?.throwIfAborted();
    await this.bucket.remove(plan.sources);
    const [left] = [...(await this.segmentsOf(plan)).keys()].filter((key) => key !== plan.target);
    if (left !== undefined) throw new Error(`${left} still exists after its removal.`);
    if ((await this.write(NO_PLAN, version)) === undefined) return false;
    this.count(plan);
    return true;
  }

  private async make(plan: Plan, sources: readonly ListedObject[]): Promise<boolean> {
    try {
      await this.bucket.upload(plan.target, this.contents(plan, sources));
    } catch (error) {
      if (error instanceof SourceGoneError) return false;
      if (!(error instanceof ObjectExistsError)) throw error;
    }
    return true;
  }

  private async *contents(plan: Plan, sources: readonly ListedObject[]): AsyncGenerator<Uint8Array> {
    let length = 0;
    for await (const [{ key }, object] of readAhead(this.bucket, sources, this.options.signal)) {
      if (!object) throw new SourceGoneError(key);
      length += object.bytes.length;
      yield object.bytes;
    }
    if (length !== plan.bytes) throw new Error(`The sources of ${plan.target} have ${length} bytes, and had ${plan.bytes}.`);
  }

  private async segmentsOf({ target, sources }: Plan): Promise<Map<string, ListedObject>> {
    const wanted = new Set([target, ...sources]);
    const found = new Map<string, ListedObject>();
    for await (const segment of listSegments(this.bucket, this.day, this.options.signal)) {
      if (wanted.has(segment.key)) found.set(segment.key, segment);
    }
    return found;
  }

  private async readPlan(): Promise<DayPlan> {
    const found = await readDayPlan(this.bucket, this.day);
    if (found.isDamaged) throw new DamagedPlanError(this.day);
    return found;
  }

  private write(bytes: Uint8Array, version: string | undefined): Promise<string | undefined> {
    const key = planKey(this.day);
    return version === undefined ? this.bucket.create(key, bytes) : this.bucket.replace(key, bytes, version);
  }

  private count({ sources, bytes }: Plan): void {
    this.sources += sources.length;
    this.targets += 1;
    this.bytes += bytes;
  }
}

class SourceGoneError extends Error {
  constructor(key: string) {
    super(`${key} is gone.`);
    this.name = new.target.name;
  }
}
