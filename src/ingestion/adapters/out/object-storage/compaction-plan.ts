import { z } from 'zod';
import { parseJson } from '../../../../common/text.js';
import type { Bucket } from './bucket.js';
import { PLANS } from './keys.js';
import { type Day, directoryOf, parseName } from './segment-names.js';

const PLAN = z.object({
  target: z.string(),
  /** The keys of the segments to merge, in the order in which the target (the merged segment) contains their lines. */
  sources: z.array(z.string()).min(2).transform((keys) => [...new Set(keys)]),
  bytes: z.number().int().positive(),
});
export type Plan = z.infer<typeof PLAN>;

const HOLD = z.object({
  /** The ids of the `DayHold`s that share the hold: of removals of uploads, and of processes that deliver events. */
  removals: z.array(z.string()).min(1),
});
export type Hold = z.infer<typeof HOLD>;

export const NO_PLAN = Buffer.alloc(0);

/**
 * A hold on a day, or a plan of compaction whose target (the merged segment) doesn't exist, counts as left by a crashed
 * process if it wasn't written for this long, by the store's clock.
 */
export const PLAN_PATIENCE_MS = 10 * 60_000;

/** The key of the object that contains a day's plan of compaction or the hold on the day. */
export const planKey = ({ kind, date }: Day): string => `${PLANS}kind=${kind}/date=${date}`;

export interface DayPlan {
  readonly plan?: Plan;
  readonly hold?: Hold;
  readonly isDamaged?: true;
  readonly version?: string;
  /** Time since the object of the plan or hold was written, by the store's clock; 0 if there is no such object. */
  readonly ageMs: number;
}

/** The object of a day's plan of compaction is damaged. It may also have been a hold on the day. */
export class DamagedPlanError extends Error {
  constructor(day: Day) {
    super(`${planKey(day)} is no plan; nothing was done there.`);
    this.name = new.target.name;
  }
}

/** Reads the plan of compaction of a day, or the hold on it. Throws errors of the bucket. */
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

/** Whether a plan names only segments of its day: a damaged plan must not make compaction remove other objects. */
function isOwn(day: Day, { target, sources }: Plan): boolean {
  const isThere = (key: string): boolean => key.startsWith(directoryOf(day));
  const isOriginal = (key: string): boolean => parseName(day, key).origin === 'original';
  return isThere(target) && !isOriginal(target) && sources.every((key) => isThere(key) && isOriginal(key));
}

/** The keys of a day's segments that may still exist although compaction has copied their lines to another one. */
export async function copiedSegments(bucket: Bucket, day: Day): Promise<ReadonlySet<string>> {
  const { plan } = await readDayPlan(bucket, day);
  return new Set(plan && (await sizeOf(bucket, plan.target)) === plan.bytes ? plan.sources : []);
}
