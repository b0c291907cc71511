import { Logger } from '@nestjs/common';
import { HOUR_MS, MINUTE_MS } from '../../../../common/durations.js';
import { PeriodicJob } from '../../../../common/periodic-job.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import type { Bucket } from './bucket.js';
import { lastDays, plannedDays } from './compaction-days.js';
import { compactDay } from './compaction.js';
import { COMPACTION_TURN } from './keys.js';
import type { LostClaims } from './lost-claims.js';
import { removeOldClaims } from './old-claims.js';
import type { Day } from './segment-names.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { SharedJob } from './shared-job.js';

const FIRST_DELAY_MS = 10 * MINUTE_MS;
const INTERVAL_MS = HOUR_MS;
const JITTER_MS = 5 * MINUTE_MS;
const MIN_INTERVAL_MS = 50 * MINUTE_MS;
const DAYS = 7;

/**
 * Runs regular jobs on the bucket: rebuilds lost claims of idempotency keys, compacts past days, and removes old
 * claims. Tries one to ten minutes after the start, and then about every hour. The jobs run at most once in 50 minutes,
 * on the one replica that takes the turn. A failed job is logged as a warning, and retried at the next turn.
 */
export class Compactor {
  private readonly job = new PeriodicJob(() => this.run(), () => INTERVAL_MS + (Math.random() * 2 - 1) * JITTER_MS);
  private waiting = new Set<string>();
  private waitingSince = '';

  constructor(
    private readonly bucket: Bucket,
    private readonly lostClaims: LostClaims,
    private readonly logger: StorageLogger = new Logger(Compactor.name),
  ) {}

  start(): void {
    this.job.start(MINUTE_MS + Math.random() * (FIRST_DELAY_MS - MINUTE_MS));
  }

  /** Stops the jobs, a compaction at its next step; a later one continues it. Call it before the bucket is closed. */
  close(): Promise<void> {
    return this.job.close();
  }

  private async run(): Promise<void> {
    await this.attempt('Taking the turn of compaction', async () => {
      if (!(await new SharedJob(this.bucket, COMPACTION_TURN, MIN_INTERVAL_MS).take())) return;
      await this.attempt('Rebuilding lost claims', () => this.lostClaims.rebuild({ isSaved: true }));
      for (const day of await this.days()) await this.attempt(`Compacting ${day.kind} of ${day.date}`, () => this.compact(day));
      await this.attempt('Removing old claims', () => removeOldClaims(this.bucket, { signal: this.job.signal }));
    });
  }

  private async days(): Promise<Day[]> {
    const dates = lastDays(this.bucket, DAYS);
    const days: Day[] = dates.flatMap((date) => UPLOAD_KINDS.map((kind) => ({ kind, date })));
    for await (const day of plannedDays(this.bucket)) if (!dates.includes(day.date)) days.push(day);
    const [yesterday = ''] = dates;
    if (yesterday !== this.waitingSince) {
      this.waitingSince = yesterday;
      this.waiting = new Set();
    }
    return days;
  }

  private async compact({ kind, date }: Day): Promise<void> {
    const { signal } = this.job;
    const { malformed } = await compactDay(this.bucket, kind, date, { signal, waiting: this.waiting });
    for (const { key, problem } of malformed) this.logger.warn(`${key} is left alone by compaction: ${problem}.`);
  }

  private async attempt(what: string, action: () => Promise<unknown>): Promise<void> {
    const { signal } = this.job;
    try {
      signal.throwIfAborted();
      await action();
    } catch (error) {
      if (!signal.aborted) this.logger.warn(`${what} failed; retrying at the next turn.`, error);
    }
  }
}
