import { z } from 'zod';
import { parseJson } from '../../../application/line-text.js';
import { PLANS } from './keys.js';
import { type Day, directoryOf, parseName } from './segment-names.js';

/** What compaction does with a day. */
const PLAN = z.object({
  /** The segment to create. */
  target: z.string(),
  /** The segments whose lines the target contains, in this order, each once. */
  sources: z.array(z.string()).min(2).transform((keys) => [...new Set(keys)]),
  /** Total size of all sources. */
  bytes: z.number().int().positive(),
});
export type Plan = z.infer<typeof PLAN>;

/** Removals that keep compaction from a day. */
const HOLD = z.object({
  /** The ids of the removals. */
  removals: z.array(z.string()).min(1),
});
export type Hold = z.infer<typeof HOLD>;

/** How long after its last write a plan or hold is taken to belong to a crashed process, in milliseconds. */
export const PLAN_PATIENCE_MS = 10 * 60_000;

/** Key of the plan or hold of a kind and day. An empty object is neither. */
export const planKey = ({ kind, date }: Day): string => `${PLANS}kind=${kind}/date=${date}`;

/** The plan or hold in an object that isn't empty. Throws if it is neither. */
export function parsePlan(day: Day, bytes: Buffer): Plan | Hold {
  const value = parseJson(bytes);
  const hold = HOLD.safeParse(value).data;
  if (hold) return hold;
  const plan = PLAN.safeParse(value).data;
  if (!plan || !isOwn(day, plan)) throw new Error(`${planKey(day)} is no plan; nothing was done there.`);
  return plan;
}

export const isHold = (plan: Plan | Hold): plan is Hold => 'removals' in plan;

/** Whether a plan stays within what compaction may do. */
function isOwn(day: Day, { target, sources }: Plan): boolean {
  const isThere = (key: string): boolean => key.startsWith(directoryOf(day));
  const isOriginal = (key: string): boolean => parseName(day, key).origin === 'original';
  return isThere(target) && !isOriginal(target) && sources.every((key) => isThere(key) && isOriginal(key));
}
