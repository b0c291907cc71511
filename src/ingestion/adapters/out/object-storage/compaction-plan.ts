import { z } from 'zod';
import { parseJson } from '../../../../common/text.js';
import type { Bucket } from './bucket.js';
import { PLANS } from './keys.js';
import { type Day, directoryOf, parseName } from './segment-names.js';

/**
 * The plan of a compaction: segments (objects with index lines) of a day to merge (the sources), and the segment to
 * create from them (the target).
 */
const PLAN = z.object({
  /** The key of the segment to create. */
  target: z.string(),
  /** The keys of the segments to merge, without repetitions. The target contains their lines in this order. */
  sources: z.array(z.string()).min(2).transform((keys) => [...new Set(keys)]),
  /** Total size of all sources, in bytes. */
  bytes: z.number().int().positive(),
});
export type Plan = z.infer<typeof PLAN>;

/**
 * A hold keeps compaction from a day while uploads are removed from this day, or while the day's events are delivered.
 */
const HOLD = z.object({
  /** The ids of the holders, one for each `DayHold`: of removals of uploads, and of processes that deliver events. */
  removals: z.array(z.string()).min(1),
});
export type Hold = z.infer<typeof HOLD>;

/** An empty object in place of a plan or a hold: the day has neither. */
export const NO_PLAN = Buffer.alloc(0);

/**
 * A hold, or a plan whose target doesn't exist, counts as left by a crashed process if it wasn't written for this long,
 * in milliseconds by the store's clock. Until then, compaction merges no segments of the day. If the target exists,
 * compaction continues the plan at once.
 */
export const PLAN_PATIENCE_MS = 10 * 60_000;

/**
 * The key of the object with the plan or the hold of one day of one kind. If the object is missing or empty, there is
 * neither.
 */
export const planKey = ({ kind, date }: Day): string => `${PLANS}kind=${kind}/date=${date}`;

/** The object at the `planKey` of a day, as it was read. */
export interface DayPlan {
  /** The plan; undefined if there is none. */
  readonly plan?: Plan;
  /** The hold; undefined if there is none. */
  readonly hold?: Hold;
  /**
   * Whether the object is neither empty, nor a hold, nor a plan that only names segments which compaction may merge and
   * create.
   */
  readonly isDamaged?: true;
  /** The version of the object; undefined if it is missing. */
  readonly version?: string;
  /** Milliseconds since the object was written, by the store's clock; 0 if it is missing. */
  readonly ageMs: number;
}

/** The object at the `planKey` of a day is damaged, so it isn't known whether a hold keeps compaction from the day. */
export class DamagedPlanError extends Error {
  constructor(day: Day) {
    super(`${planKey(day)} is no plan; nothing was done there.`);
    this.name = new.target.name;
  }
}

/** Reads the plan or the hold of a day. Throws errors of the bucket. */
export async function readDayPlan(bucket: Bucket, day: Day): Promise<DayPlan> {
  const found = await bucket.read(planKey(day));
  if (!found) return { ageMs: 0 };
  const { bytes, version, ageMs } = found;
  return { ...(bytes.length > 0 && parse(day, bytes)), version, ageMs };
}

function parse(day: Day, bytes: Buffer): Pick<DayPlan, 'plan' | 'hold' | 'isDamaged'> {
  const value = parseJson(bytes);
  const hold = HOLD.safeParse(value).data;
  if (hold) return { hold };
  const plan = PLAN.safeParse(value).data;
  return plan && isOwn(day, plan) ? { plan } : { isDamaged: true };
}

/** The length of an object in bytes; undefined if it is missing. Throws errors of the bucket. */
export async function sizeOf(bucket: Bucket, key: string): Promise<number | undefined> {
  for await (const object of bucket.list(key)) if (object.key === key) return object.size;
  return undefined;
}

/**
 * Whether a plan, by the names in it, only merges segments of its day that uploads have written, into a segment of this
 * day with a name that uploads don't give. Compaction removes the merged segments, so a damaged plan must not name
 * anything else.
 */
function isOwn(day: Day, { target, sources }: Plan): boolean {
  const isThere = (key: string): boolean => key.startsWith(directoryOf(day));
  const isOriginal = (key: string): boolean => parseName(day, key).origin === 'original';
  return isThere(target) && !isOriginal(target) && sources.every((key) => isThere(key) && isOriginal(key));
}

/** The keys of the segments that may still exist although compaction has copied their lines to the merged segment. */
export async function copiedSegments(bucket: Bucket, day: Day): Promise<ReadonlySet<string>> {
  const { plan } = await readDayPlan(bucket, day);
  return new Set(plan && (await sizeOf(bucket, plan.target)) === plan.bytes ? plan.sources : []);
}
