import { z } from 'zod';
import { parseJson } from '../../../application/line-text.js';
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
  /** The ids of the holders, one for each `DayHold`. A holder is a removal of uploads, or an event outbox. */
  removals: z.array(z.string()).min(1),
});
export type Hold = z.infer<typeof HOLD>;

/**
 * A plan or hold is taken for that of a crashed process if it wasn't written for this long, in milliseconds by the
 * store's clock.
 */
export const PLAN_PATIENCE_MS = 10 * 60_000;

/**
 * The key of the object with the plan or the hold of one day of one kind. If the object is missing or empty, there is
 * neither.
 */
export const planKey = ({ kind, date }: Day): string => `${PLANS}kind=${kind}/date=${date}`;

/**
 * Parses a day's plan or hold from the bytes of the object at `planKey`, which must not be empty. Throws if the bytes
 * are neither, or a plan with a segment that compaction may not merge or create.
 */
export function parsePlan(day: Day, bytes: Buffer): Plan | Hold {
  const value = parseJson(bytes);
  const hold = HOLD.safeParse(value).data;
  if (hold) return hold;
  const plan = PLAN.safeParse(value).data;
  if (!plan || !isOwn(day, plan)) throw new Error(`${planKey(day)} is no plan; nothing was done there.`);
  return plan;
}

export const isHold = (plan: Plan | Hold): plan is Hold => 'removals' in plan;

/**
 * Whether a plan only merges segments of its day that uploads have written, into a segment of this day with a name that
 * uploads don't give. Compaction removes the merged segments, so a damaged plan must not name anything else.
 */
function isOwn(day: Day, { target, sources }: Plan): boolean {
  const isThere = (key: string): boolean => key.startsWith(directoryOf(day));
  const isOriginal = (key: string): boolean => parseName(day, key).origin === 'original';
  return isThere(target) && !isOriginal(target) && sources.every((key) => isThere(key) && isOriginal(key));
}
