import { z } from 'zod';
import { parseJson } from '../../../../application/line-text.js';
import type { Bucket } from '../bucket.js';
import { PLANS } from '../keys.js';

const PLAN = z.object({ target: z.string(), sources: z.array(z.string()) });

/**
 * The keys of the segments of each compaction in progress: the merged one (target) and those that it replaces
 * (sources). A plan exists from before its compaction changes anything until after the sources were removed.
 */
export async function readPlans(bucket: Bucket): Promise<ReadonlySet<string>[]> {
  const plans: Set<string>[] = [];
  for await (const { key, size } of bucket.list(PLANS)) {
    // An empty object contains no plan: the compaction has ended.
    if (size === 0) continue;
    const object = await bucket.read(key);
    const { success, data } = PLAN.safeParse(object && parseJson(object.bytes));
    if (success) plans.push(new Set([data.target, ...data.sources]));
  }
  return plans;
}
