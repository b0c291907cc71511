import { randomUUID } from 'node:crypto';
import type { Bucket } from '../bucket.js';
import { isHold, parsePlan, type Plan, PLAN_PATIENCE_MS, planKey } from '../compaction-plan.js';
import { FENCE } from '../keys.js';
import type { Day } from '../segment-names.js';
import { pauseAfter } from './contention.js';

const RENEW_AFTER_MS = 60_000;
const MOST_TURNS = 20;

/**
 * This process's hold on a day is gone: another process took this one for crashed, and replaced or removed the hold.
 * Since then, compaction may have worked on the day.
 */
export class HoldLostError extends Error {
  constructor(day: Day) {
    super(`The hold on ${planKey(day)} was lost.`);
    this.name = new.target.name;
  }
}

/**
 * Keeps compaction from a day while a removal of uploads rewrites the day's segments, or the event outbox reads them.
 * Compaction copies segments: from a copy made before a removal, it could restore a removed line.
 *
 * A day has either a hold or a plan of compaction, because both are in the same object. Several processes may share a
 * hold, which lists the id of each `DayHold`. A hold that wasn't written for ten minutes is taken to belong to crashed
 * processes, and another process may then replace it. So a removal checks its hold after it has rewritten a segment. An
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
   * Takes a hold on a day, which keeps compaction from the day. If the day has a plan of compaction, first completes or
   * ends this plan. Throws errors of the bucket.
   */
  static async take(bucket: Bucket, day: Day): Promise<DayHold> {
    const hold = new DayHold(bucket, day);
    if (!(await hold.change((ids) => [...ids, hold.id]))) throw new HoldLostError(day);
    return hold;
  }

  /**
   * Checks that this process still has its hold on the day. Renews the hold if this process last wrote it more than a
   * minute ago.
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
   * Changes the list of ids in the day's hold. Resolves to whether the hold was written.
   *
   * @param change gets the ids in the hold and returns those to write; undefined to write nothing.
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
      await pauseAfter(turn);
    }
    throw new Error(`${key} changes faster than it can be written.`);
  }

  /**
   * Ends the plan of a compaction. If its target (the merged segment) exists, completes the plan. Otherwise creates a
   * fence (an empty object) in place of the target, so that the target can't be created any more.
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
