import { z } from 'zod';
import { parseJson } from '../../../application/line-text.js';
import { PLANS } from './keys.js';
import { type Day, directoryOf, parseName } from './segment-names.js';

/** The plan of a compaction: the segments of a day that it merges, and the segment that it creates from them. */
const PLAN = z.object({
  /** The segment to create. */
  target: z.string(),
  /** The segments whose lines the target contains, in this order, each once. */
  sources: z.array(z.string()).min(2).transform((keys) => [...new Set(keys)]),
  /** Total size of all sources, in bytes. */
  bytes: z.number().int().positive(),
});
export type Plan = z.infer<typeof PLAN>;

/** A hold: keeps compaction from a day while uploads are removed from it, or its events are delivered. */
const HOLD = z.object({
  /** The ids of those that hold the day, one for each `DayHold`. Besides removals, the event outbox holds days. */
  removals: z.array(z.string()).min(1),
});
export type Hold = z.infer<typeof HOLD>;

/** How long after its last write a plan or hold is taken to belong to a crashed process, in milliseconds. */
export const PLAN_PATIENCE_MS = 10 * 60_000;

/**
 * The key of the object that contains either the plan or the hold of a kind and day. An empty object contains neither.
 */
export const planKey = ({ kind, date }: Day): string => `${PLANS}kind=${kind}/date=${date}`;

/**
 * The plan or hold in an object at `planKey`, whose bytes must not be empty. Throws if the bytes are neither, and if
 * the plan concerns other segments than those that compaction may merge or create.
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
 * Whether a plan only merges segments of its day that uploads have written, into a segment of the same day that is
 * named like those of compaction. Sources are removed, so a damaged plan must not name other objects.
 */
function isOwn(day: Day, { target, sources }: Plan): boolean {
  const isThere = (key: string): boolean => key.startsWith(directoryOf(day));
  const isOriginal = (key: string): boolean => parseName(day, key).origin === 'original';
  return isThere(target) && !isOriginal(target) && sources.every((key) => isThere(key) && isOriginal(key));
}
