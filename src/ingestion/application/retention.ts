import { Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { utcDate } from '../domain/layout.js';
import { FileStorage } from './ports/file-storage.port.js';
import type { StoredUploads } from './ports/stored-uploads.port.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const EVERY_MS = 60 * 60 * 1000;

/** How many days uploads are kept. */
export class RetentionPeriod {
  /** @param days uploads received on a UTC day more than this many days before today are removed; 0 keeps all. */
  constructor(readonly days: number) {}
}

/** Removes the uploads that are older than the retention period: when the service starts, and then every hour. */
@Injectable()
export class Retention implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly logger = new Logger(Retention.name);
  private readonly ending = new AbortController();
  private timer: NodeJS.Timeout | undefined;
  private removing: Promise<void> | undefined;

  constructor(
    private readonly fileStorage: FileStorage,
    private readonly period: RetentionPeriod,
  ) {}

  onApplicationBootstrap(): void {
    const { days } = this.period;
    if (days === 0) return;
    const { storedUploads } = this.fileStorage;
    if (storedUploads) this.run(storedUploads);
    else this.logger.warn(`RETENTION_DAYS is ${days}, but the store can't remove uploads, so all are kept.`);
  }

  async onApplicationShutdown(): Promise<void> {
    this.ending.abort();
    clearTimeout(this.timer);
    await this.removing;
  }

  private run(storedUploads: StoredUploads): void {
    this.removing = this.removeExpired(storedUploads).finally(() => {
      if (!this.ending.signal.aborted) this.timer = setTimeout(() => { this.run(storedUploads); }, EVERY_MS).unref();
    });
  }

  /** Removes the expired uploads once. A failure is only logged, because the next run, an hour later, tries again. */
  private async removeExpired(storedUploads: StoredUploads): Promise<void> {
    const { days } = this.period;
    const first = utcDate(new Date(Date.now() - days * DAY_MS));
    const { signal } = this.ending;
    try {
      const uploads = await storedUploads.removeExpired(new Date(first), { signal });
      if (uploads > 0) this.logger.log(`Removed ${uploads} uploads of the days before ${first}, because RETENTION_DAYS is ${days}.`);
    } catch (error) {
      if (!signal.aborted) this.logger.warn(`Removing the uploads of the days before ${first} failed; retrying in an hour.`, error);
    }
  }
}
