import type { Bucket } from '../bucket.js';
import { plannedDays } from '../compaction-days.js';
import { readDayPlan } from '../compaction-plan.js';

/**
 * For each unfinished compaction, the keys of its segments: the merged one (target), and the ones that it replaces
 * (sources). A plan exists from before its target is created until after its sources were removed.
 */
export async function readPlans(bucket: Bucket): Promise<ReadonlySet<string>[]> {
  const plans: Set<string>[] = [];
  for await (const day of plannedDays(bucket)) {
    const { plan } = await readDayPlan(bucket, day);
    if (plan) plans.push(new Set([plan.target, ...plan.sources]));
  }
  return plans;
}
