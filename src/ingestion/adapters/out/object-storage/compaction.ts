import { setImmediate } from 'node:timers/promises';
import { uuidAt } from '../../../../common/uuid.js';
import { utcDate } from '../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';
import { parseJson } from '../../../application/line-text.js';
import { type Bucket, type ListedObject, ObjectExistsError, type ReadObject } from './bucket.js';
import { isHold, parsePlan, type Plan, PLAN_PATIENCE_MS, planKey } from './compaction-plan.js';
import { isPartlyTold } from './event-outbox/cursor.js';
import { CLAIMS, MARKERS, PLANS } from './keys.js';
import { readAhead } from './read-ahead.js';
import { type Day, DAY_GRACE_MS, directoryOf, endOf, parseName, targetName, uploadIdIn } from './segment-names.js';

const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Younger segments are left alone: a writer that got no answer from the store may still retry or undo its write. */
const LEAST_AGE_MS = 10 * MINUTE_MS;
/**
 * A segment with a line under an idempotency key isn't merged while it is younger than this, in milliseconds. A claim
 * refers to the segment of its upload for 24 hours.
 */
const KEYED_AGE_MS = 25 * HOUR_MS;
const FENCE_AGE_MS = DAY_MS;
const CLAIM_AGE_MS = 25 * HOUR_MS;
const LARGE_BYTES = 16 * MIB;
const MOST_TARGET_BYTES = 64 * MIB;
const MOST_SOURCES = 10_000;
const LINES_AT_ONCE_BYTES = MIB;
const CLAIMS_AT_ONCE = 1_000;

const NEWLINE = 0x0a;
const EMPTY = new Uint8Array();

export type { Day };

export interface CompactionOptions {
  /** Whether to only report what would be done, and change nothing. */
  readonly dryRun?: boolean;
  /** Stops the compaction at its next step. A later compaction continues. */
  readonly signal?: AbortSignal | undefined;
  /** Called for each segment that was read. */
  readonly onRead?: () => void;
  /**
   * Object keys of segments that can't be merged until the `Idempotency-Key` of one of their lines expires. The
   * compaction adds such segments when it finds them, so that the next call needn't read them.
   */
  readonly waiting?: Set<string>;
}

/** A segment that compaction doesn't touch. */
export interface MalformedSegment {
  readonly key: string;
  /** Describes what is wrong with the segment. */
  readonly problem: string;
}

/** The result of a compaction, or of a dry run. */
export interface DayReport extends Day {
  /** Number of small segments that were merged. */
  readonly sources: number;
  /** Number of large segments that these small segments became. */
  readonly targets: number;
  /** Total size of the large segments. */
  readonly bytes: number;
  /** Number of empty segments that were removed. */
  readonly fences: number;
  readonly malformed: readonly MalformedSegment[];
  /** Whether another process is compacting the day, so that something may be left to do. */
  readonly isUnderWay: boolean;
}

/** Whether, by this machine's clock, a day ended so long ago that no new segment gets a name in it. */
export const isClosed = (date: string): boolean => Date.now() >= Date.parse(date) + DAY_MS + DAY_GRACE_MS;

/** The days that are over (`isClosed`) among the last `count` days before today, newest first. */
export const lastDays = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => utcDate(new Date(Date.now() - (index + 1) * DAY_MS))).filter(isClosed);

/** The days that are over and have segments. */
export async function* closedDays(bucket: Bucket, kinds: readonly UploadKind[] = UPLOAD_KINDS): AsyncGenerator<Day> {
  for (const kind of kinds) {
    for await (const directory of bucket.listDirectories(`uploads/kind=${kind}/`)) {
      const date = /\/date=(\d{4}-\d\d-\d\d)\/$/.exec(directory)?.[1];
      if (date !== undefined && isClosed(date)) yield { kind, date };
    }
  }
}

/** The past days that have a plan: merging their segments was begun but not finished. */
export async function* plannedDays(bucket: Bucket): AsyncGenerator<Day> {
  for await (const { key, size } of bucket.list(PLANS)) {
    const [, name, date] = /^compaction\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)$/.exec(key) ?? [];
    const kind = UPLOAD_KINDS.find((known) => known === name);
    if (size > 0 && kind && date !== undefined) yield { kind, date };
  }
}

/**
 * Removes the claims of expired idempotency keys: those that were last written more than 25 hours ago by the store's
 * clock.
 *
 * A claim that is rewritten between the listing and its removal is removed too. If the request under that key is then
 * repeated, it is stored again. This happens only if a client reuses a key after more than a day, at that very moment.
 *
 * @returns the number of claims that were removed; in a dry run, the number of those that would be.
 */
export async function removeOldClaims(bucket: Bucket, { dryRun = false, signal }: CompactionOptions = {}): Promise<number> {
  let count = 0;
  const keys: string[] = [];
  const removeThem = async () => {
    count += keys.length;
    const batch = keys.splice(0);
    if (!dryRun && batch.length > 0) await bucket.remove(batch);
  };
  for await (const { key, ageMs } of bucket.list(CLAIMS)) {
    signal?.throwIfAborted();
    if (ageMs > CLAIM_AGE_MS) keys.push(key);
    if (keys.length >= CLAIMS_AT_ONCE) await removeThem();
  }
  await removeThem();
  return count;
}

/**
 * Merges the small segments of a day that is over into a few large ones. Does nothing for any other day.
 *
 * Any number of processes may compact a day at once. Each may crash or stall at any step, for any length of time:
 *
 * 1. Create a plan at `compaction/kind=K/date=D`. The plan names the segments to merge, its sources, and the segment to
 *    create, its target. There is one plan at a time: a plan is created only if none exists, and a process replaces
 *    only the version of the plan that it knows.
 * 2. Create the target from all bytes of the sources, unless it exists. If a source is missing, create nothing.
 * 3. When the target exists and has the sources' total size, remove the sources.
 * 4. When the sources are gone, replace the plan by an empty object. The plan isn't removed, because a process that
 *    stalled before the removal could remove the next plan.
 *
 * A process that finds a plan continues it. Two processes may carry out one plan, because a target is never a source
 * and so is never removed. A process that stalled while the target was created finds the target. A process that stalled
 * while removing sources only removes what is already gone.
 *
 * So a line is never lost, and it exists twice between steps 2 and 3. It stays twice in two cases:
 *
 * - The writer of a segment stalled for ten minutes before it retried the write. The writer writes a line again that a
 *   target already contains.
 * - A process stalled after it had read all sources. Meanwhile someone else removed a source, before the target was
 *   created.
 *
 * A removal of uploads rewrites segments. It keeps compaction from the day meanwhile, by a hold in place of the plan
 * (stored-uploads/day-hold.ts). If the removal finds a plan, it completes the plan if the target exists. Otherwise it
 * ends the plan, by a fence in place of the target.
 *
 * A segment may be overwritten after more than ten minutes, because its uploads have failed. Its lines then stay in the
 * target, as if the writer had been killed before it overwrote the segment.
 *
 * A target's name is later than the names of its sources. A listing returns names in order, page by page, so if it
 * misses sources that were just removed, it still reaches the target. The name also identifies a target: its time is
 * more than ten minutes after the end of its day.
 *
 * These segments are not merged:
 *
 * - Segments of 16 MiB or more, malformed ones, and those younger than ten minutes.
 * - Segments with a marker in `staging/`, because their upload may have to be looked up.
 * - Segments of a day of whose events the receiver has confirmed only some. The event outbox remembers the segments
 *   whose events were confirmed, so a target must not mix lines of these segments with others.
 * - Segments with a line under an `Idempotency-Key`, until their claim has expired. Those of a day wait together until
 *   the day has been over for 25 hours.
 *
 * Empty segments are only fences of failed uploads. They are removed after 24 hours.
 *
 * Holds in memory at most 32 MiB of segments, and the list of the day's segments. Rejects with errors of the bucket,
 * and if a target doesn't have the size of its sources; a later compaction does the rest.
 */
export function compactDay(bucket: Bucket, kind: UploadKind, date: string, options: CompactionOptions = {}): Promise<DayReport> {
  return new DayCompaction(bucket, { kind, date }, options).run();
}

class DayCompaction {
  private readonly directory: string;
  private readonly endedAt: number;
  private readonly malformed = new Map<string, MalformedSegment>();
  private readonly waiting: Set<string>;
  /** Segments that this dry run has already counted as merged. */
  private readonly taken = new Set<string>();
  private sources = 0;
  private targets = 0;
  private bytes = 0;
  private fences = 0;

  constructor(
    private readonly bucket: Bucket,
    private readonly day: Day,
    private readonly options: CompactionOptions,
  ) {
    this.directory = directoryOf(day);
    this.endedAt = endOf(day);
    this.waiting = options.waiting ?? new Set();
  }

  async run(): Promise<DayReport> {
    let isUnderWay = false;
    if (isClosed(this.day.date)) {
      await this.removeFences();
      if (this.options.dryRun) await this.look();
      else isUnderWay = !(await this.compact());
    }
    const { day, sources, targets, bytes, fences, malformed } = this;
    return { ...day, sources, targets, bytes, fences, malformed: [...malformed.values()], isUnderWay };
  }

  private async look(): Promise<void> {
    const { plan: begun } = await this.readPlan();
    for (let plan = begun ?? (await this.choose()); plan; plan = await this.choose()) {
      for (const key of plan.sources) this.taken.add(key);
      this.count(plan);
    }
  }

  /** Merges the day's segments. Resolves to false if another process is compacting the day. */
  private async compact(): Promise<boolean> {
    for (;;) {
      const found = await this.readPlan();
      let { plan, version } = found;
      if (found.isHeld && found.ageMs < PLAN_PATIENCE_MS) return false;
      if (plan) {
        if (found.ageMs < PLAN_PATIENCE_MS && (await this.sizeOf(plan.target)) === undefined) return false;
      } else {
        plan = await this.choose();
        if (!plan) return true;
        version = await this.write(Buffer.from(JSON.stringify(plan)), version);
      }
      if (version === undefined || !(await this.carryOut(plan, version))) return false;
    }
  }

  /**
   * Resolves to true if this process carried out the plan, or dropped it because sources were missing or had changed.
   * Resolves to false if another process changed the plan or removed sources in the meantime.
   */
  private async carryOut(plan: Plan, version: string): Promise<boolean> {
    const segments = new Map((await this.list()).map((segment) => [segment.key, segment]));
    if (!segments.has(plan.target)) {
      const sources = plan.sources.map((key) => segments.get(key)).filter((source) => source !== undefined);
      const isWhole = sources.length === plan.sources.length && plan.bytes === sources.reduce((sum, { size }) => sum + size, 0);
      // Compaction removes no source without its target. So someone else removed or emptied a source, or an earlier
      // plan removed it before this one was made. The other sources need a new plan.
      if (!isWhole) return (await this.write(EMPTY, version)) !== undefined;
      if (!(await this.make(plan, sources))) return false;
    }
    const size = await this.sizeOf(plan.target);
    // The target is a fence: whoever took a hold on the day has ended the plan.
    if (size === 0) return (await this.write(EMPTY, version)) !== undefined;
    if (size !== plan.bytes) {
      throw new Error(`${plan.target} has ${size ?? 'no'} bytes, and its sources had ${plan.bytes}; none of them was removed.`);
    }
    this.options.signal?.throwIfAborted();
    await this.bucket.remove(plan.sources);
    const sources = new Set(plan.sources);
    const left = (await this.list()).find(({ key }) => sources.has(key));
    if (left) throw new Error(`${left.key} is there after it was removed.`);
    if ((await this.write(EMPTY, version)) === undefined) return false;
    this.count(plan);
    return true;
  }

  /** Creates the target. Resolves to whether the target exists, whoever created it. If not, a source is gone. */
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

  /**
   * The next plan; undefined if fewer than two segments can be merged. Segments of slow uploads are merged last, among
   * themselves.
   */
  private async choose(): Promise<Plan | undefined> {
    if (await isPartlyTold(this.bucket, this.day)) return undefined;
    const segments = await this.list();
    // An upload's marker exists before its segment, so a segment without a marker now never gets one.
    const marked = await this.marked();
    const candidates = segments.filter((segment) => this.isCandidate(segment) && !marked.has(uploadIdIn(segment.key)));
    const isSlow = ({ key }: ListedObject): boolean => parseName(this.day, key).isSlow;
    return (await this.planOf(candidates.filter((segment) => !isSlow(segment)), false)) ?? this.planOf(candidates.filter(isSlow), true);
  }

  private async planOf(candidates: readonly ListedObject[], isSlow: boolean): Promise<Plan | undefined> {
    const sources: string[] = [];
    let bytes = 0;
    for await (const [segment, object] of readAhead(this.bucket, candidates, this.options.signal)) {
      if (object?.bytes.length !== segment.size || !(await this.isSound(segment, object))) continue;
      if (sources.length === MOST_SOURCES || bytes + segment.size > MOST_TARGET_BYTES) break;
      sources.push(segment.key);
      bytes += segment.size;
    }
    return sources.length < 2 ? undefined : { target: this.directory + targetName(uuidAt(new Date()), isSlow), sources, bytes };
  }

  private isCandidate(segment: ListedObject): boolean {
    const { key, size, ageMs } = segment;
    if (size === 0 || size >= LARGE_BYTES || ageMs <= LEAST_AGE_MS || !this.isOriginal(key)) return false;
    return !this.malformed.has(key) && !this.taken.has(key) && !(this.waiting.has(key) && this.mayBeClaimed(segment));
  }

  /** Whether a segment was written by an upload: it has a segment's name and isn't a target. */
  private isOriginal(key: string): boolean {
    return parseName(this.day, key).origin === 'original';
  }

  private mayBeClaimed({ ageMs }: ListedObject): boolean {
    return ageMs <= KEYED_AGE_MS || Date.now() <= this.endedAt + KEYED_AGE_MS;
  }

  /** Whether a segment that was read can be merged now. */
  private async isSound(segment: ListedObject, { bytes }: ReadObject): Promise<boolean> {
    this.options.onRead?.();
    const { problem, isKeyed } = await inspect(bytes);
    if (problem !== undefined) this.malformed.set(segment.key, { key: segment.key, problem });
    else if (isKeyed) this.waiting.add(segment.key);
    return problem === undefined && !(isKeyed && this.mayBeClaimed(segment));
  }

  private async removeFences(): Promise<void> {
    const segments = await this.list();
    const marked = await this.marked();
    const keys = segments
      .filter(({ key, size, ageMs }) => size === 0 && ageMs > FENCE_AGE_MS && parseName(this.day, key).origin !== 'foreign' && !marked.has(uploadIdIn(key)))
      .map(({ key }) => key);
    this.fences = keys.length;
    if (keys.length > 0 && !this.options.dryRun) await this.bucket.remove(keys);
  }

  /** The day's segments in the order of their keys, each once: a listing that repeats one must not double its lines. */
  private async list(): Promise<ListedObject[]> {
    const segments = new Map<string, ListedObject>();
    for await (const segment of this.bucket.list(this.directory)) segments.set(segment.key, segment);
    this.options.signal?.throwIfAborted();
    return [...segments.values()].sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
  }

  /**
   * Ids of the uploads that have a marker: they are in progress, or their process crashed and no sweeper has settled
   * them yet.
   */
  private async marked(): Promise<Set<string>> {
    const ids = new Set<string>();
    for await (const { key } of this.bucket.list(MARKERS)) ids.add(uploadIdIn(key));
    return ids;
  }

  private async sizeOf(key: string): Promise<number | undefined> {
    for await (const object of this.bucket.list(key)) if (object.key === key) return object.size;
    return undefined;
  }

  private async readPlan(): Promise<{ plan?: Plan; isHeld?: boolean; version?: string; ageMs: number }> {
    const found = await this.bucket.read(planKey(this.day));
    if (!found) return { ageMs: 0 };
    const { bytes, version, ageMs } = found;
    if (bytes.length === 0) return { version, ageMs };
    const plan = parsePlan(this.day, bytes);
    return isHold(plan) ? { isHeld: true, version, ageMs } : { plan, version, ageMs };
  }

  /**
   * Writes the plan's object: in place of `version`, or as a new object if `version` is undefined. Resolves to the new
   * version; undefined if another process was faster.
   */
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

/** A source was removed while its target was created. */
class SourceGoneError extends Error {
  constructor(key: string) {
    super(`${key} is gone.`);
    this.name = new.target.name;
  }
}

/**
 * Checks that a segment's lines are JSON objects, and whether one of them has an idempotency key. Lets other work run
 * after each MiB.
 */
async function inspect(bytes: Buffer): Promise<{ problem?: string; isKeyed: boolean }> {
  let isKeyed = false;
  if (bytes.at(-1) !== NEWLINE) return { problem: 'its last line has no newline', isKeyed };
  let looked = 0;
  for (let begin = 0; begin < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, begin);
    const line = parseJson(bytes.subarray(begin, end));
    if (typeof line !== 'object' || line === null || Array.isArray(line)) {
      return { problem: `the line at byte ${begin} is no JSON object in UTF-8`, isKeyed };
    }
    isKeyed ||= 'idempotency_key' in line;
    begin = end + 1;
    if (begin - looked > LINES_AT_ONCE_BYTES) {
      looked = begin;
      await setImmediate();
    }
  }
  return { isKeyed };
}

