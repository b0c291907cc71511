import { randomUUID } from 'node:crypto';
import type { Bucket } from '../bucket.js';
import { isHold, parsePlan, type Plan, PLAN_PATIENCE_MS, planKey } from '../compaction-plan.js';
import { FENCE } from '../keys.js';
import type { Day } from '../segment-names.js';

const RENEW_AFTER_MS = 60_000;
const MOST_TURNS = 20;

/**
 * Another process has taken away this process's hold on a day, because it took the process for crashed. Compaction may
 * have gone on since.
 */
export class HoldLostError extends Error {
  constructor(day: Day) {
    super(`The hold on ${planKey(day)} was lost.`);
    this.name = new.target.name;
  }
}

/**
 * Keeps compaction from a day while the day's segments are rewritten by a removal of uploads, or read by the event
 * outbox. Compaction copies segments, so it could restore a line from a copy that it read before the line was removed.
 *
 * The hold is in the same object as the plan of a compaction, and so only one of both exists. Several processes share a
 * hold, which lists an id for each of them. A hold that wasn't written for ten minutes is taken to belong to crashed
 * processes, and then another process may replace it. So a removal checks its hold after it has rewritten a segment. An
 * id that was taken out of a hold never comes back.
 */
export class DayHold {
  private readonly id = randomUUID();
  private writtenAt = performance.now();

  private constructor(
    private readonly bucket: Bucket,
    private readonly day: Day,
  ) {}

  /**
   * Takes a hold on a day. First completes or ends a compaction of the day that is in progress. Throws errors of the
   * bucket.
   */
  static async take(bucket: Bucket, day: Day): Promise<DayHold> {
    const hold = new DayHold(bucket, day);
    if (!(await hold.change((ids) => [...ids, hold.id]))) throw new HoldLostError(day);
    return hold;
  }

  /**
   * Checks that this process still has the hold. Renews the hold if it was last written more than a minute ago.
   *
   * @throws HoldLostError if the hold was lost; an error of the bucket.
   */
  async check(): Promise<void> {
    const isOld = performance.now() - this.writtenAt > RENEW_AFTER_MS;
    const isHeld = isOld ? await this.change((ids) => (ids.includes(this.id) ? ids : undefined)) : (await this.holders()).includes(this.id);
    if (!isHeld) throw new HoldLostError(this.day);
  }

  async release(): Promise<void> {
    await this.change((ids) => (ids.includes(this.id) ? ids.filter((id) => id !== this.id) : undefined));
  }

  private async holders(): Promise<readonly string[]> {
    const found = await this.bucket.read(planKey(this.day));
    const plan = found && found.bytes.length > 0 ? parsePlan(this.day, found.bytes) : undefined;
    return plan && isHold(plan) ? plan.removals : [];
  }

  /**
   * Changes the ids in the hold. Resolves to whether the hold was written.
   *
   * @param change returns the ids to write for the present ones; undefined to write nothing.
   */
  private async change(change: (ids: readonly string[]) => readonly string[] | undefined): Promise<boolean> {
    const key = planKey(this.day);
    for (let turn = 0; turn < MOST_TURNS; turn++) {
      const found = await this.bucket.read(key);
      const plan = found && found.bytes.length > 0 ? parsePlan(this.day, found.bytes) : undefined;
      const isExpired = found !== undefined && found.ageMs >= PLAN_PATIENCE_MS;
      const ids = change(plan && isHold(plan) && !isExpired ? plan.removals : []);
      if (!ids) return false;
      if (plan && !isHold(plan)) await this.end(plan);
      const bytes = ids.length === 0 ? FENCE : Buffer.from(JSON.stringify({ removals: ids }));
      this.writtenAt = performance.now();
      const written = found ? await this.bucket.replace(key, bytes, found.version) : await this.bucket.create(key, bytes);
      if (written !== undefined) return true;
    }
    throw new Error(`${key} changes faster than it can be written.`);
  }

  /**
   * Completes a compaction's plan if its target exists. Otherwise creates a fence in place of the target, so that the
   * target is never created.
   */
  private async end({ target, sources, bytes }: Plan): Promise<void> {
    if ((await this.bucket.create(target, FENCE)) !== undefined) return;
    let size: number | undefined;
    for await (const object of this.bucket.list(target)) if (object.key === target) ({ size } = object);
    if (size === 0) return;
    if (size !== bytes) throw new Error(`${target} has ${size ?? 'no'} bytes, and its sources had ${bytes}; nothing was removed.`);
    await this.bucket.remove(sources);
  }
}
