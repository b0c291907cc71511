import { randomUUID } from 'node:crypto';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import type { Bucket } from '../bucket.js';
import { DamagedPlanError, NO_PLAN, type Plan, PLAN_PATIENCE_MS, planKey, readDayPlan, sizeOf } from '../compaction-plan.js';
import { FENCE } from '../keys.js';
import type { Day } from '../segment-names.js';
import { pauseAfter } from './contention.js';

const RENEW_AFTER_MS = 60_000;
const MAX_ROUNDS = 20;

/** This process's hold on a day is lost, so compaction may have worked on the day since. */
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
 * A day never has both a hold and a plan of compaction, because they are in the same object. Several processes may
 * share a hold, which lists the id of each `DayHold`. A hold that wasn't written for ten minutes counts as left by
 * crashed processes, and another process may then replace it, or compact the day. So a removal checks its hold after it
 * has rewritten segments. A check that succeeds shows that the hold was never lost, because an id that was taken out of
 * a hold never comes back.
 */
export class DayHold {
  private readonly id = randomUUID();
  private writtenAt = performance.now();

  private constructor(
    private readonly bucket: Bucket,
    private readonly day: Day,
    private readonly logger: StorageLogger,
  ) {}

  /**
   * Takes a hold, after completing or ending a plan of compaction for the day.
   *
   * @throws DamagedPlanError if the object of the plan or hold is damaged and less than ten minutes old.
   * @throws an Error if a plan's target doesn't have the size of its sources, or if other processes keep changing the
   * object.
   * @throws an error of the bucket.
   */
  static async take(bucket: Bucket, day: Day, logger: StorageLogger): Promise<DayHold> {
    const hold = new DayHold(bucket, day, logger);
    if (!(await hold.change((ids) => [...ids, hold.id]))) throw new HoldLostError(day);
    return hold;
  }

  /**
   * Checks the hold, and renews it if this process last wrote it more than a minute ago.
   *
   * @throws HoldLostError if the hold was lost; an Error if other processes keep changing the object; an error of the
   * bucket.
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
    const { hold } = await readDayPlan(this.bucket, this.day);
    return hold?.removals ?? [];
  }

  private async change(change: (ids: readonly string[]) => readonly string[] | undefined): Promise<boolean> {
    const key = planKey(this.day);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const { plan, hold, isDamaged, version, ageMs } = await readDayPlan(this.bucket, this.day);
      const isExpired = ageMs >= PLAN_PATIENCE_MS;
      const ids = change(hold && !isExpired ? hold.removals : []);
      if (!ids) return false;
      if (isDamaged && !isExpired) throw new DamagedPlanError(this.day);
      if (plan) await this.end(plan);
      const bytes = ids.length === 0 ? NO_PLAN : Buffer.from(JSON.stringify({ removals: ids }));
      this.writtenAt = performance.now();
      const written = await (version === undefined ? this.bucket.create(key, bytes) : this.bucket.replace(key, bytes, version));
      if (written !== undefined) {
        if (isDamaged) this.logger.warn(`${key} was damaged: it was neither a plan of compaction nor a hold. A hold has replaced it.`);
        return true;
      }
      await pauseAfter(round);
    }
    throw new Error(`${key} changes faster than it can be written.`);
  }

  /** Completes a plan if its target exists; otherwise prevents the target by a fence, an empty object in its place. */
  private async end({ target, sources, bytes }: Plan): Promise<void> {
    if ((await this.bucket.create(target, FENCE)) !== undefined) return;
    const size = await sizeOf(this.bucket, target);
    if (size === 0) return;
    if (size !== bytes) throw new Error(`${target} has ${size ?? 'no'} bytes, and its sources had ${bytes}; nothing was removed.`);
    await this.bucket.remove(sources);
  }
}
