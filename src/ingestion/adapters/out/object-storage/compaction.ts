import { setImmediate } from 'node:timers/promises';
import { z } from 'zod';
import { uuidAt } from '../../../../common/uuid.js';
import { segmentDirectory, utcDate } from '../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';
import { parseJson } from '../../../application/line-text.js';
import { type Bucket, type ListedObject, ObjectExistsError, type ReadObject } from './bucket.js';
import { CLAIMS, MARKERS, PLANS } from './keys.js';
import { readAhead } from './read-ahead.js';

const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Whoever wrote a younger segment may still ask for it, or take it back, because the answer was lost. */
const LEAST_AGE_MS = 10 * MINUTE_MS;
/** A segment whose name was given later than so long after its day was made by compaction. */
const DAY_GRACE_MS = 10 * MINUTE_MS;
/** A claim leads to the segment of its upload for 24 hours. */
const KEYED_AGE_MS = 25 * HOUR_MS;
const FENCE_AGE_MS = DAY_MS;
const CLAIM_AGE_MS = 25 * HOUR_MS;
/** Whoever made a younger plan is probably at it. */
const PLAN_PATIENCE_MS = 10 * MINUTE_MS;
const LARGE_BYTES = 16 * MIB;
const MOST_TARGET_BYTES = 64 * MIB;
const MOST_SOURCES = 10_000;
const LINES_AT_ONCE_BYTES = MIB;
const CLAIMS_AT_ONCE = 1_000;

const NEWLINE = 0x0a;
const EMPTY = new Uint8Array();
const SEGMENT_NAME = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.ndjson$/;

export interface Day {
  readonly kind: UploadKind;
  /** `YYYY-MM-DD`, in UTC. */
  readonly date: string;
}

export interface CompactionOptions {
  /** Looks, and changes nothing. */
  readonly dryRun?: boolean;
  /** Ends it at the next step; whoever comes next goes on. */
  readonly signal?: AbortSignal | undefined;
  /** Called for each segment that was read. */
  readonly onRead?: () => void;
  /** Keys of segments that are known to wait for their `Idempotency-Key`; filled, so that the next call needn't read them. */
  readonly waiting?: Set<string>;
}

/** A segment that is left alone. */
export interface MalformedSegment {
  readonly key: string;
  /** What is wrong with it, in words. */
  readonly problem: string;
}

/** What a compaction did, or would do. */
export interface DayReport extends Day {
  /** How many small segments became large ones. */
  readonly sources: number;
  /** How many large ones they became. */
  readonly targets: number;
  /** Of the large ones. */
  readonly bytes: number;
  /** How many empty segments were removed. */
  readonly fences: number;
  readonly malformed: readonly MalformedSegment[];
  /** Whether another process is at it, so that something may be left. */
  readonly isUnderWay: boolean;
}

const PLAN = z.object({
  /** The segment that is made. */
  target: z.string(),
  /** The segments whose lines it holds, in this order, each once. */
  sources: z.array(z.string()).min(2).transform((keys) => [...new Set(keys)]),
  /** Of all sources. */
  bytes: z.number().int().positive(),
});
type Plan = z.infer<typeof PLAN>;

/** Where the plan for a kind and day stands. An object without bytes is no plan. */
const planKey = ({ kind, date }: Day): string => `${PLANS}kind=${kind}/date=${date}`;

const directoryOf = ({ kind, date }: Day): string => `${segmentDirectory(kind, new Date(date))}/`;

/** Whether a day is over, and so long that no segment gets a name in it any more. By this machine's clock. */
export const isClosed = (date: string): boolean => Date.now() >= Date.parse(date) + DAY_MS + DAY_GRACE_MS;

/** The last days that are over, the newest first. */
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

/** The days whose compaction was begun and not ended. */
export async function* plannedDays(bucket: Bucket): AsyncGenerator<Day> {
  for await (const { key, size } of bucket.list(PLANS)) {
    const [, name, date] = /^compaction\/kind=([a-z]+)\/date=(\d{4}-\d\d-\d\d)$/.exec(key) ?? [];
    const kind = UPLOAD_KINDS.find((known) => known === name);
    if (size > 0 && kind && date !== undefined) yield { kind, date };
  }
}

/**
 * Removes the claims of keys that are over, 25 hours after they were written by the store's clock.
 *
 * A claim that is written anew between the listing and the removal goes too: then a request under that key is stored
 * again if it is repeated. The same key has to come again after more than a day, and in that moment.
 *
 * @returns how many.
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
 * Makes few large segments of the small ones of a day that is over; does nothing for another day.
 *
 * Any number of processes may do it at once, and any may be lost or stand still at any step, for however long:
 *
 * 1. A plan is made at `compaction/kind=K/date=D`: which segments, its sources, become which one, its target. There is
 *    one at a time: it is made only where there is none, and goes only in place of itself.
 * 2. The target is made, create-only, of all bytes of the sources, or not at all where a source is gone.
 * 3. When the target is there with the sources' size, the sources are removed.
 * 4. When the sources are gone, the plan is replaced by an object without bytes. It isn't removed: a process that stood
 *    still before that would remove the next plan.
 *
 * Whoever finds a plan goes on where it was left. Two may carry out one plan, because a target is never a source and so
 * never goes: whoever stood still while the target was made finds it, and one that was removing removes what is gone.
 * So a line is never lost, and between 2 and 3 it stands twice. It stays twice when
 * - whoever wrote a segment stood still for ten minutes before it asked for it once more: it writes the line again that
 *   a target holds;
 * - somebody else removed a source before its target was made, while a process stood still that had read them all.
 *
 * A segment that is written over after more than ten minutes, because its uploads have failed, stays in the target: as
 * if the process had been killed before it wrote over it.
 *
 * A target's name is younger than those of its sources: a listing comes page by page in the order of the names, and one
 * that misses sources because they were just removed comes to the target later. By that it is also known as a target:
 * its time is more than ten minutes past its day.
 *
 * Left alone are segments of 16 MiB and more, malformed ones, those younger than ten minutes, those with a marker in
 * `staging/` (their upload may have to be looked up), and such with a line under an `Idempotency-Key` until their claim
 * is over: all of a day together when the day is over for 25 hours. Empty ones, which only fence lost uploads, are
 * removed after 24 hours.
 *
 * Holds 32 MiB of segments, or one, and the list of the day's. Rejects with what the bucket throws; the rest is left
 * to whoever comes next.
 */
export function compactDay(bucket: Bucket, kind: UploadKind, date: string, options: CompactionOptions = {}): Promise<DayReport> {
  return new DayCompaction(bucket, { kind, date }, options).run();
}

class DayCompaction {
  private readonly directory: string;
  private readonly endedAt: number;
  private readonly malformed = new Map<string, MalformedSegment>();
  private readonly waiting: Set<string>;
  /** What a dry run would have removed. */
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
    this.endedAt = Date.parse(day.date) + DAY_MS;
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

  /** Resolves to whether it came to the end; otherwise another process is at it. */
  private async compact(): Promise<boolean> {
    for (;;) {
      const found = await this.readPlan();
      let { plan, version } = found;
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

  /** Resolves to whether it did it; otherwise another process did. */
  private async carryOut(plan: Plan, version: string): Promise<boolean> {
    const segments = new Map((await this.list()).map((segment) => [segment.key, segment]));
    if (!segments.has(plan.target)) {
      const sources = plan.sources.map((key) => segments.get(key)).filter((source) => source !== undefined);
      const isWhole = sources.length === plan.sources.length && plan.bytes === sources.reduce((sum, { size }) => sum + size, 0);
      // Compaction removes no source without its target: somebody else did, or emptied it, or it went with another plan
      // before this one was made. The rest needs a new one.
      if (!isWhole) return (await this.write(EMPTY, version)) !== undefined;
      if (!(await this.make(plan, sources))) return false;
    }
    const size = await this.sizeOf(plan.target);
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

  /** Resolves to whether the target was made, by whomever; otherwise a source is gone. */
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

  /** What is to become one segment next; undefined where it isn't worth it. */
  private async choose(): Promise<Plan | undefined> {
    const segments = await this.list();
    // An upload has its marker before its segment: one that has none now never has one again.
    const marked = await this.marked();
    const candidates = segments.filter((segment) => this.isCandidate(segment) && !marked.has(nameOf(segment.key)));
    const sources: string[] = [];
    let bytes = 0;
    for await (const [segment, object] of readAhead(this.bucket, candidates, this.options.signal)) {
      if (object?.bytes.length !== segment.size || !(await this.isSound(segment, object))) continue;
      if (sources.length === MOST_SOURCES || bytes + segment.size > MOST_TARGET_BYTES) break;
      sources.push(segment.key);
      bytes += segment.size;
    }
    return sources.length < 2 ? undefined : { target: `${this.directory}${uuidAt(new Date())}.ndjson`, sources, bytes };
  }

  private isCandidate(segment: ListedObject): boolean {
    const { key, size, ageMs } = segment;
    if (size === 0 || size >= LARGE_BYTES || ageMs <= LEAST_AGE_MS || !this.isOriginal(key)) return false;
    return !this.malformed.has(key) && !this.taken.has(key) && !(this.waiting.has(key) && this.mayBeClaimed(segment));
  }

  /** Whether an upload's line stood in it first: it has a segment's name, and isn't a target. */
  private isOriginal(key: string): boolean {
    const name = key.slice(this.directory.length);
    return SEGMENT_NAME.test(name) && timeOf(name) < this.endedAt + DAY_GRACE_MS;
  }

  private mayBeClaimed({ ageMs }: ListedObject): boolean {
    return ageMs <= KEYED_AGE_MS || Date.now() <= this.endedAt + KEYED_AGE_MS;
  }

  /** Whether a segment that was read can become part of another now. */
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
      .filter(({ key, size, ageMs }) => size === 0 && ageMs > FENCE_AGE_MS && this.isOriginal(key) && !marked.has(nameOf(key)))
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

  /** The ids of uploads that are under way, or were lost and not swept. */
  private async marked(): Promise<Set<string>> {
    const ids = new Set<string>();
    for await (const { key } of this.bucket.list(MARKERS)) ids.add(nameOf(key));
    return ids;
  }

  private async sizeOf(key: string): Promise<number | undefined> {
    for await (const object of this.bucket.list(key)) if (object.key === key) return object.size;
    return undefined;
  }

  private async readPlan(): Promise<{ plan?: Plan; version?: string; ageMs: number }> {
    const found = await this.bucket.read(planKey(this.day));
    if (!found) return { ageMs: 0 };
    const { bytes, version, ageMs } = found;
    return bytes.length === 0 ? { version, ageMs } : { plan: this.parsePlan(bytes), version, ageMs };
  }

  private parsePlan(bytes: Buffer): Plan {
    const { success, data: plan } = PLAN.safeParse(parseJson(bytes));
    if (!success || !this.isOwn(plan)) throw new Error(`${planKey(this.day)} is no plan; nothing was done there.`);
    return plan;
  }

  /** Whether carrying it out can only do what one of ours does. */
  private isOwn({ target, sources }: Plan): boolean {
    const isThere = (key: string) => key.startsWith(this.directory);
    return isThere(target) && !this.isOriginal(target) && sources.every((key) => isThere(key) && this.isOriginal(key));
  }

  /** Writes the plan in place of a version, or where there was none; undefined when another process was faster. */
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

/** A source was removed while its target was made. */
class SourceGoneError extends Error {
  constructor(key: string) {
    super(`${key} is gone.`);
    this.name = new.target.name;
  }
}

/** Looks at a segment's lines, and lets others run meanwhile. */
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

/** Behind the last `/`, without extension. */
const nameOf = (key: string): string => key.slice(key.lastIndexOf('/') + 1).replace(/\.ndjson$/, '');

/** Milliseconds since 1970, of a UUID of version 7. */
const timeOf = (name: string): number => parseInt(name.slice(0, 8) + name.slice(9, 13), 16);
