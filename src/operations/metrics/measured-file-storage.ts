import type { OnApplicationShutdown } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import { FileStorage, type UploadDraft, type UploadReceipt } from '../../ingestion/application/ports/file-storage.port.js';
import type { EventOutbox } from '../../ingestion/application/ports/event-outbox.port.js';
import type { StoredUploads } from '../../ingestion/application/ports/stored-uploads.port.js';
import type { IndexFlush } from '../../ingestion/application/ports/index-flush.js';
import type { LineQueue } from '../../ingestion/application/ports/line-queue.js';
import { MeasuredEventOutbox } from './measured-event-outbox.js';
import type { Metrics } from './metrics.js';
import type { Ownership } from './ownership.js';

/** The callback `onFlush` for a store. It counts and measures the flushes of the index. */
export const measuredFlush = (metrics: Metrics) => ({ lines, seconds, ok }: IndexFlush): void => {
  metrics.flushes.inc({ outcome: ok ? 'ok' : 'failed' });
  metrics.flushedLines.inc(lines);
  metrics.flushSeconds.observe(seconds);
};

/** Counts a file storage's uploads: in progress, stored (except those answered with an earlier receipt) and failed. */
export class MeasuredFileStorage extends FileStorage implements OnApplicationShutdown {
  override readonly storedUploads: StoredUploads | undefined;
  override readonly eventOutbox: EventOutbox | undefined;
  override readonly now?: () => number;

  constructor(
    private readonly storage: FileStorage & Partial<LineQueue & OnApplicationShutdown>,
    private readonly metrics: Metrics,
    private readonly ownership: Ownership = 'owned',
  ) {
    super();
    this.storedUploads = storage.storedUploads;
    if (storage.now) this.now = storage.now.bind(storage);
    if (storage.waitingLines !== undefined) metrics.readWaitingLines = () => storage.waitingLines;
    this.eventOutbox = storage.eventOutbox && new MeasuredEventOutbox(storage.eventOutbox, metrics);
  }

  override async store(draft: UploadDraft): Promise<UploadReceipt> {
    const { kind } = draft;
    this.metrics.uploadsInProgress += 1;
    try {
      const receipt = await this.storage.store(draft);
      if (!receipt.replayed) {
        const uploads = this.metrics.uploads[kind];
        uploads.count += 1;
        uploads.bytes += receipt.content?.size ?? 0;
      }
      return receipt;
    } catch (error) {
      this.metrics.uploadFailures.inc({ kind, reason: error instanceof ServiceError ? error.kind : 'internal' });
      throw error;
    } finally {
      this.metrics.uploadsInProgress -= 1;
    }
  }

  override checkHealth(): Promise<void> {
    return this.storage.checkHealth();
  }

  async onApplicationShutdown(signal?: string): Promise<void> {
    if (this.ownership === 'owned') await this.storage.onApplicationShutdown?.(signal);
  }
}
