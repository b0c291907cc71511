import { randomUUID } from 'node:crypto';
import type { Bucket } from '../bucket.js';
import { isHold, parsePlan, type Plan, PLAN_PATIENCE_MS, planKey } from '../compaction-plan.js';
import { FENCE } from '../keys.js';
import type { Day } from '../segment-names.js';

const RENEW_AFTER_MS = 60_000;
const MOST_TURNS = 20;

/**
 * This process's hold on a day is gone, because another process took this one for crashed, and replaced or removed the
 * hold. Compaction may have gone on since.
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
 * The hold is in the same object as the plan of a compaction, and so only one of the two exists. Several processes may
 * share a hold, which lists the id of each `DayHold`. A hold that wasn't written for ten minutes is taken to belong to
 * crashed processes, and then another process may replace it. So a removal checks its hold after it has rewritten a
 * segment. An id that was taken out of a hold never comes back.
 */
export class DayHold {
  private readonly id = randomUUID();
  private writtenAt = performance.now();

  private constructor(
    private readonly bucket: Bucket,
    private readonly day: Day,
  ) {}

  /**
   * Takes a hold on a day. If a compaction of the day is in progress, first completes or ends the compaction. Throws
   * errors of the bucket.
   */
  static async take(bucket: Bucket, day: Day): Promise<DayHold> {
    const hold = new DayHold(bucket, day);
    if (!(await hold.change((ids) => [...ids, hold.id]))) throw new HoldLostError(day);
    return hold;
  }

  /**
   * Checks that this process still has its hold. Renews the hold if this process last wrote it more than a minute ago.
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
   * Completes the plan of a compaction if its target exists. Otherwise creates a fence in place of the target, so that
   * the target is never created.
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
