import { Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { clockShiftMs } from '../../common/clock-shift.js';
import { DAY_MS, HOUR_MS } from '../../common/durations.js';
import { PeriodicJob } from '../../common/periodic-job.js';
import { utcDate } from '../domain/layout.js';
import { FileStorage } from './ports/file-storage.port.js';
import type { StoredUploads } from './ports/stored-uploads.port.js';

const EVERY_MS = HOUR_MS;
const MAX_SHIFT_MS = HOUR_MS;
const STEADY_MS = DAY_MS;

/** How many days uploads are kept. */
export class RetentionPeriod {
  /**
   * @param days an upload is removed when the UTC day on which it was received is more than this many days ago. 0: all
   *   uploads are kept.
   */
  constructor(readonly days: number) {}
}

/**
 * Removes the uploads that are older than the retention period, once an hour. After the machine's clock jumped by more
 * than an hour, removes nothing until it was steady for a day, or the service is restarted, because one run at a wrong
 * time in the future would remove all uploads. The first run is an hour after the start, to notice a clock that was
 * wrong at boot.
 */
@Injectable()
export class Retention implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly logger = new Logger(Retention.name);
  private readonly job = new PeriodicJob(() => this.run(), () => EVERY_MS);
  private clockShiftMs = clockShiftMs();
  /** When the clock jumped, by `performance.now()`; undefined while the clock is trusted. */
  private jumpedAt: number | undefined;

  constructor(
    private readonly fileStorage: FileStorage,
    private readonly period: RetentionPeriod,
  ) {}

  onApplicationBootstrap(): void {
    const { days } = this.period;
    if (days === 0) return;
    if (this.fileStorage.storedUploads) this.job.start(EVERY_MS);
    else this.logger.warn(`RETENTION_DAYS is ${days}, but the store can't remove uploads, so all are kept.`);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.job.close();
  }

  private async run(): Promise<void> {
    const { storedUploads } = this.fileStorage;
    if (storedUploads && this.isClockTrusted()) await this.removeExpired(storedUploads);
  }

  private async removeExpired(storedUploads: StoredUploads): Promise<void> {
    const { days } = this.period;
    const first = utcDate(new Date(Date.now() - days * DAY_MS));
    const { signal } = this.job;
    try {
      const uploads = await storedUploads.removeExpired(new Date(first), { signal });
      if (uploads > 0) this.logger.log(`Removed ${uploads} ${uploads === 1 ? 'upload' : 'uploads'} of the days before ${first}, because RETENTION_DAYS is ${days}.`);
    } catch (error) {
      if (!signal.aborted) this.logger.warn(`Removing the uploads of the days before ${first} failed; retrying in an hour.`, error);
    }
  }

  private isClockTrusted(): boolean {
    const earlier = this.clockShiftMs;
    this.clockShiftMs = clockShiftMs();
    const shift = this.clockShiftMs - earlier;
    if (Math.abs(shift) > MAX_SHIFT_MS) {
      const hours = Math.round(Math.abs(shift) / HOUR_MS);
      this.logger.warn(`The clock of the machine jumped ${shift > 0 ? 'forward' : 'back'} by ${hours} hours. No uploads are removed by RETENTION_DAYS until the clock was steady for a day, or the service is restarted.`);
      this.jumpedAt = performance.now();
    } else if (this.jumpedAt !== undefined && performance.now() - this.jumpedAt >= STEADY_MS) {
      this.jumpedAt = undefined;
    }
    return this.jumpedAt === undefined;
  }
}
