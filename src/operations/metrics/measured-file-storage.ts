import type { OnApplicationShutdown } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import { FileStorage, type UploadDraft } from '../../ingestion/application/ports/file-storage.port.js';
import type { Upload } from '../../ingestion/domain/upload.js';
import type { Metrics } from './metrics.js';

/** Counts what goes into a file storage, and hands the application's shutdown on to it. */
export class MeasuredFileStorage extends FileStorage implements OnApplicationShutdown {
  constructor(
    private readonly storage: FileStorage & Partial<OnApplicationShutdown>,
    private readonly metrics: Metrics,
  ) {
    super();
  }

  override async store(draft: UploadDraft): Promise<Upload> {
    const { kind } = draft;
    try {
      const upload = await this.storage.store(draft);
      this.metrics.uploads.inc({ kind });
      this.metrics.uploadBytes.inc({ kind }, upload.content?.size ?? 0);
      return upload;
    } catch (error) {
      this.metrics.uploadFailures.inc({ kind, reason: error instanceof ServiceError ? error.kind : 'internal' });
      throw error;
    }
  }

  override checkHealth(): Promise<void> {
    return this.storage.checkHealth();
  }

  async onApplicationShutdown(signal?: string): Promise<void> {
    await this.storage.onApplicationShutdown?.(signal);
  }
}
